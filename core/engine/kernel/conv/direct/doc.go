// Package direct computes convolutions straight from images that are framed by zeros: direct.go and weight.go for
// float32, where a stride splits frames by its phases, bf16.go and bf16_weight.go for pairs of bfloat16 with stride 1. With AVX-512, most weight
// gradients are computed from views, where rows have no gaps between them (views.go). Strides, and few taps or channels, have filters in
// the lanes instead of pixels, and read images where they lie (filters.go).
//
// It imports core/engine/kernel, its elementwise and gemm, and conv/cost and conv/geometry. Start with direct.go.
package direct
