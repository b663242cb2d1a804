// Package gpu is one GPU as used by the packages that compute on it: context and
// stream, kernels by name, memory, and bounded waits.
//
// Every wait has a deadline (wait.go). A GPU that misses it or reports a fault is
// lost: every call then fails with the same *LostError (lost.go), and the driver
// releases the device's memory when the process ends. watch.go detects calls that
// never return.
//
// It imports core/base/bytesize, core/base/shm, core/engine/cuda/driver and core/tensor, and knows
// nothing of plans. Start with gpu.go.
package gpu
