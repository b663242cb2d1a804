// Package cudatest gives tests a CUDA without a GPU: a libcuda, a libnvrtc and a
// libnccl of our own, compiled where a C++ compiler is, that run the real
// kernels' sources on the processor. Everything above them is what a GPU would
// get: the bindings, the device, the training loop, worker and plugin processes,
// between which memory and events cross.
//
// It shows that indices, formulas and the order of copies are right. It shows
// nothing about speed, nor about what NVIDIA's libraries really do.
//
// It imports core/engine/cuda/dl and core/engine/cuda/driver. Start with
// cudatest.go.
package cudatest
