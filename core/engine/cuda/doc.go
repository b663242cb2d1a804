// Package cuda runs plans on an NVIDIA GPU.
//
// Every step becomes library calls and kernel launches on one stream. Binding a
// plan (executor.go) allocates memory and prepares every launch; running replays
// CUDA graphs (graph.go), split where the host has work to do. visible.go lists
// the visible GPUs, or reports what is missing.
//
// A State in mirrored memory stays on the device: runs read and write the copy
// there, and gradient hooks are called when the gradient has been enqueued. Any
// other State is copied to the device at the start of a run; each gradient is
// copied back, and waited for, before its hook is called; buffers are copied back
// at the end.
//
// The subpackages, from the bottom up:
//
//	dl, driver  open NVIDIA's libraries and bind their functions
//	kernels     the sources of trainctl's own kernels, and their compiler
//	gpu         one GPU: stream, kernels by name, memory, bounded waits
//	memory      device memory and the copies to and from it
//	library     cuDNN and cuBLASLt
//	ops         the launches of each step, one file per operation
//	optimizer   the update of all parameters
//
// Tests run on fakes: the kernels compiled as C++ behind a driver in Go (fakegpu)
// with fake libraries that compute in its memory, and, for several processes, behind
// a driver in C++ (cudatest). So everything except the hardware is tested with
// core/engine/devicetest without a GPU.
//
// It imports core/base/dl, core/engine and core/tensor. Start with device.go, then executor.go.
package cuda
