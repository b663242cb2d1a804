// Package kernels has the sources of trainctl's own CUDA kernels, and compiles them
// with NVRTC for the GPU of the machine.
//
// A program contains all files, for one element type: first those that build on each
// other, starting with common.cu, then one per pointwise function. Compiled images
// are cached in a folder. No kernel adds with atomics, so equal runs give equal bits.
//
// It imports core/engine/cuda/driver and core/tensor. Start with sources.go.
package kernels
