// Package gemm multiplies matrices. gemm.go has the functions and their definition,
// blocked.go the plain Go version, product.go the one for vectors, narrow.go what it does with few columns, bf16.go the one for
// bfloat16, tiles.go that with AMX; tile.go describes the micro-kernel that direct convolution calls, too.
//
// It imports core/tensor, core/engine/kernel, core/engine/kernel/amx and core/engine/kernel/elementwise.
// Start with gemm.go.
package gemm
