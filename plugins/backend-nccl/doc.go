// Package nccl is the backend plugin "nccl": collectives between NVIDIA GPUs.
//
// It finds libcuda and libnccl at run time; the build does not need them. If they or a
// GPU are missing, the error of Open lists what is missing and what to use instead.
//
// NCCL does not compare the ranks' calls and does not report missing ranks. So the ranks
// first agree on a call (plugins/internal/agreement), and only then launch it (do.go).
// Every wait on NCCL is a poll that the deadline, a peer's failure and Close end
// (communicator.go). All calls into NCCL and CUDA come from one thread
// (plugins/internal/clib): if a call never returns, the backend still reports an error.
//
// Gradients of a CUDA rank are reduced in place, in memory that is also mapped
// here (arena.go), after the rank's event. Calls that complete early are watched until
// their own event has happened (issued.go). Gradients of CPU ranks are staged through
// device memory (device.go). Each channel has a communicator and a stream (channel.go).
// docs/gpu.md lists what was measured and what still needs a GPU.
//
// It imports core/base, core/contract, core/base/dl, core/engine/cuda/driver, core/sdk,
// core/tensor, plugins/internal/agreement, plugins/internal/clib and
// plugins/internal/instance. Start with do.go.
package nccl
