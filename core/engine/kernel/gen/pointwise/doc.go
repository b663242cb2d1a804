// Package pointwise is the kernels whose results depend on one element, or on one row of them:
// functions of float32 (formula.go, functions.go), softmax (softmax.go, attention.go), conversions and sums
// of half types, optimizers, and images. families.go lists them.
package pointwise
