// Package cuda runs plans on an NVIDIA GPU.
//
// Every step becomes calls of libraries and kernels of our own on one stream:
// cuDNN makes convolutions (dnn.go, dnnconv.go) and cuBLASLt matrix products
// (blas.go); kernels/*.cu, compiled by NVRTC when a program is bound, do the
// rest, and those two as well, slowly, where a library is missing. Nothing is
// added up by atomics, so equal runs give equal bits.
//
// Binding looks at the plan as a whole: flow.go says which step made what a
// step reads, layout.go which images have their channels side by side. Running
// replays graphs (graph.go), cut where the host has something to do.
//
// A State in memory that was mirrored (resident.go) lives on the device: runs read
// and write the copy there, and hooks come when a gradient is enqueued. Any other
// State is copied to the device as a run begins; each gradient comes back, and
// is waited for, before its hook is called; buffers come back at the end.
//
// Whatever is waited for has a deadline (wait.go). A GPU that does not keep it, or
// reports a fault, is lost: every call fails with the same *LostError (lost.go), and what the
// device holds is left to the driver. watch.go looks after calls that never return.
//
// Tests compile the kernels as C++ and run them on the processor behind a fake
// driver (cudatest), with fakes of the libraries that compute on its memory, so
// that all but the hardware is held to core/engine/devicetest without a GPU.
//
// It imports core/base/shm, core/contract, core/tensor and core/engine. Start
// with device.go.
package cuda
