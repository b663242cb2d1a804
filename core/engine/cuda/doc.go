// Package cuda runs plans on an NVIDIA GPU.
//
// Every step becomes calls of libraries and kernels of our own on one stream.
// Binding a plan (executor.go) finds memory and prepares every launch; running
// replays graphs (graph.go), cut where the host has something to do. visible.go
// says which GPUs there are, or what is missing.
//
// A State in memory that was mirrored lives on the device: runs read
// and write the copy there, and hooks come when a gradient is enqueued. Any other
// State is copied to the device as a run begins; each gradient comes back, and
// is waited for, before its hook is called; buffers come back at the end.
//
// The parts, from the bottom up:
//
//	dl, driver  open NVIDIA's libraries and bind their functions
//	kernels     our own kernels' sources, and their compiler
//	gpu         one GPU: stream, kernels by name, memory, waits that end
//	memory      what lies where on it, and how it gets there
//	library     cuDNN and cuBLASLt
//	ops         each step as launches, one file for an operation
//	optimizer   the update of all parameters
//
// Tests run over fakes: the kernels compiled as C++ behind a driver in Go
// (fakegpu), with fakes of the libraries that compute on its memory, and for
// several processes behind one in C++ (cudatest); so all but the hardware is
// held to core/engine/devicetest without a GPU.
//
// It imports core/engine and core/tensor. Start with device.go, then executor.go.
package cuda
