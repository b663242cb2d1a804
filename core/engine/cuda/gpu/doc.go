// Package gpu is one GPU, as the packages that compute on it use it: context and
// stream, kernels by name, memory, and waits that end.
//
// Whatever is waited for has a deadline (wait.go). A GPU that does not keep it, or
// reports a fault, is lost: every call fails with the same *LostError (lost.go), and what the
// device holds is left to the driver. watch.go looks after calls that never return.
//
// It imports core/base/shm, core/engine/cuda/driver and core/tensor, and knows
// nothing of plans. Start with gpu.go.
package gpu
