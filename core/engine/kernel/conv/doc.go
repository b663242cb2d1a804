// Package conv convolves images, in two dimensions, and computes the gradients. conv.go
// has the functions, the definition, and the choice between the three ways to
// do it: Winograd (winograd.go), which takes the fewest products, direct (direct.go),
// which copies nothing but a frame around the image, and im2col (im2col.go), which takes
// every geometry and type.
//
// It imports core/tensor, core/engine/kernel, and below that convert, elementwise,
// gemm and reduce (core/engine/kernel). Start with conv.go.
package conv
