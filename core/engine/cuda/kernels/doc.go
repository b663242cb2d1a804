// Package kernels has the kernels of our own as CUDA sources, and compiles them
// by NVRTC for the GPU that is there.
//
// A program has all files, for one element type: those that build on each other
// (common.cu first), and behind them one for each pointwise function. Images are
// remembered in a folder. Nothing is added up by atomics, so equal runs give equal bits.
//
// It imports core/engine/cuda/driver and core/tensor. Start with sources.go.
package kernels
