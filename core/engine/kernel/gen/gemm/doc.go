// Package gemm is the kernels of matrix products and of packing their operands. families.go lists
// them.
package gemm
