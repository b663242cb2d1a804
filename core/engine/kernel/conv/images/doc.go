// Package images computes convolutions with images in the lanes of vectors: a vector holds one pixel of a channel of
// several images, so that any stride, dilation and padding reads whole vectors, and taps that see padding alone are left out.
// images.go has the outputs and the gradients of inputs, weight.go the gradients of weights, few.go those of a few channels, tile.go the micro-kernel's loops.
//
// It imports core/engine/kernel, its elementwise and gemm, and conv/cost, conv/geometry and conv/direct, whose micro-kernels few.go
// runs. Start with images.go.
package images
