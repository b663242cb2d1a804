// Package im2col computes convolutions of every geometry and type as products with a matrix of
// patches: im2col.go multiplies, columns.go writes the matrix.
//
// It imports core/engine/kernel, its elementwise and gemm, and conv/cost and conv/geometry. Start
// with im2col.go.
package im2col
