// Package driver is the binding of NVIDIA's libraries: the CUDA driver, NVRTC,
// cuBLASLt, cuDNN 9 and NCCL, opened at run time.
//
// Each library is a struct of functions, [CUDA], [NVRTC], [BlasLt], [DNN] and
// [NCCL], whose tags name the C symbols and the versions that introduced them (see
// package dl). Fields keep the C functions' arguments in C order,
// and a status other than success is an error: a [*CallError] around the
// library's own code, so that errors.Is(err, driver.OutOfMemory) works. A
// function that the installed version does not have returns a
// [*dl.MissingError]. [Open] finds and opens them.
//
// The caller must, in order:
//
//   - call [CUDA.Init] once, then retain a device's primary context and make it
//     current. The current context belongs to the thread, so a goroutine that
//     calls the driver stays on its thread (runtime.LockOSThread).
//   - not use Go memory for asynchronous copies: use [CUDA.MemHostAlloc] or register
//     mapped memory. Arguments by pointer are
//     needed only until the call returns, except where the field says
//     otherwise.
//   - destroy its handles. Libraries are never unloaded.
//
// The structs can be filled with Go functions instead of a library's: this is
// how the control flow above them is tested without a GPU.
//
// It imports core/base/dl and core/base/system. Start with open.go.
package driver

import _ "github.com/trainctl/trainctl/core/base/system"
