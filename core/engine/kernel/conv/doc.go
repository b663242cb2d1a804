// Package conv convolves images, in two dimensions, and computes the gradients. conv.go
// has the functions, choose.go the choice between the algorithms, each of which is a package
// below: winograd takes the fewest products, direct copies nothing but a frame around the image,
// product is for filters that do not overlap and for few channels, planes and interleaved for depthwise convolution,
// images for strides, dilations and small images, im2col takes every geometry and type, and tiled multiplies images of bfloat16 with AMX.
// bf16.go chooses for those. geometry is what they share,
// cost the model that chooses.
//
// It imports core/tensor, core/engine/kernel, and below that convert, elementwise, reduce and
// the packages below conv. Start with conv.go.
package conv
