// Package cuda runs plans on an NVIDIA GPU.
//
// Every step becomes kernels of our own (kernels/*.cu), compiled by NVRTC for
// the device when a program is bound, and launched in order on one stream. They
// need no library but the driver and NVRTC, and add nothing up by atomics, so
// equal runs give equal bits. Convolutions and matrix products are plain float
// arithmetic in them: right, and far from what tensor cores do.
//
// The State stays where the caller has it. A run begins by copying it to the
// device; each gradient comes back, and is waited for, before its hook is
// called; buffers and the loss come back at the end.
//
// Tests compile the same sources as C++ and run them on the processor behind a
// fake driver (testdata/emulator), so that indices, formulas and the executor
// are held to core/tensor/devicetest without a GPU.
package cuda
