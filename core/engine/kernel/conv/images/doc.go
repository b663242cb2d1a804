// Package images computes convolutions with images in the lanes of vectors: a vector holds one pixel of a channel of
// several images, so that any stride, dilation and padding reads whole vectors, and taps that see padding alone are left out.
// images.go has the outputs and the gradients of inputs, rest.go those of images that do not fill vectors, outputs.go
// those of few images of small planes, which have outputs in the lanes, and views.go what their taps see,
// pixels.go those of 1×1 filters in groups, which have pixels in the lanes, weight.go the gradients of
// weights, taps.go those whose tiles lie beside each other by taps, few.go those of a few channels, tile.go the
// micro-kernel's loops.
//
// It imports core/engine/kernel, its elementwise and gemm, and conv/cost, conv/geometry, conv/direct, whose micro-kernels few.go
// runs, and conv/im2col. Start with images.go.
package images
