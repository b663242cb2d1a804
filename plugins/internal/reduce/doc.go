// Package reduce combines buffers of several ranks as core/contract's reductions
// say: in order, half types in float32 with one rounding.
//
// It imports core/engine/kernel, core/sdk and core/tensor. Start with reduce.go.
package reduce
