// Package conv convolves images, in two dimensions, and computes the gradients. conv.go
// has the functions and the definition, choose.go the choice between the algorithms, by the
// model of costs.go: Winograd (winograd.go), which takes the fewest products, direct
// (direct.go), which copies nothing but a frame around the image, products of matrices
// (product.go) where nothing overlaps, planes (planes.go) for depthwise convolution, and
// im2col (im2col.go), which takes every geometry and type.
//
// It imports core/tensor, core/engine/kernel, and below that convert, elementwise,
// gemm and reduce (core/engine/kernel). Start with conv.go.
package conv
