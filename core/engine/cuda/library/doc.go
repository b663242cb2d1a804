// Package library uses NVIDIA's libraries for what they compute best: cuBLASLt for
// matrix products (blaslt.go), cuDNN for convolutions (cudnn.go, convolution.go).
//
// Choices of heuristics are cached, so all programs of a device share them; with
// run.deterministic = false, plans are timed (tune.go). If a library is missing, or
// has no plan for a case, trainctl's own kernels compute it.
//
// It imports core/base/dl, core/engine/cuda/driver, core/engine/cuda/gpu,
// core/engine/graph, core/engine/op and core/tensor. Start with libraries.go.
package library
