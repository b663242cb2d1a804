// Package product computes convolutions that are matrix products as they stand, because no
// element of the input meets two outputs: filters of 1×1, patches, and filters as large as the
// image; and forward and for weights those of a few channels whose filters overlap, of copies of what each output sees.
//
// It imports core/engine/kernel, its elementwise and gemm, conv/cost, conv/geometry, and conv/direct, whose micro-kernels dots.go calls.
// Start with product.go.
package product
