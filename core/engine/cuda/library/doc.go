// Package library asks NVIDIA's libraries for what they compute best: cuBLASLt
// for matrix products (blaslt.go), cuDNN for convolutions (cudnn.go, convolution.go).
//
// What a heuristic chooses is remembered, so that all programs of a device ask
// once; where bits may vary, plans are timed (tune.go). A library that is
// missing, or has nothing for a case, leaves it to kernels of our own.
//
// It imports core/engine/cuda/dl, core/engine/cuda/driver, core/engine/cuda/gpu,
// core/engine/graph, core/engine/op and core/tensor. Start with libraries.go.
package library
