// Package cuda runs plans on an NVIDIA GPU.
//
// Every step becomes kernels of our own (kernels/*.cu), compiled by NVRTC for
// the device when a program is bound, and launched in order on one stream. They
// need no library but the driver and NVRTC, and add nothing up by atomics, so
// equal runs give equal bits. Convolutions and matrix products are plain float
// arithmetic in them: right, and far from what tensor cores do.
//
// A State in memory that was mirrored (resident.go) lives on the device: runs read
// and write the copy there, and hooks come when a gradient is enqueued. Any other
// State is copied to the device as a run begins; each gradient comes back, and
// is waited for, before its hook is called; buffers come back at the end.
//
// Tests compile the same sources as C++ and run them on the processor behind a
// fake driver (cudatest), so that indices, formulas and the executor
// are held to core/tensor/devicetest without a GPU.
package cuda
