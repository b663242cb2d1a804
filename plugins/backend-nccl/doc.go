// Package nccl is the backend plugin "nccl": collectives between NVIDIA GPUs.
//
// It finds libcuda and libnccl at run time and never needs them to build.
// Where they or a GPU are missing, Open says so and what to use instead.
//
// NCCL moves data and nothing else: it neither compares what ranks call nor
// says who is missing. So the ranks agree first, at a hub beside rank 0 (hub.go,
// line.go, call.go), and only then launch (do.go). Every wait on NCCL is a poll
// that the deadline, a peer's failure and Close end (communicator.go); all
// calls into NCCL and CUDA come from one thread (thread.go), and one that
// never returns costs that thread, not the job's answer.
//
// Gradients of a CUDA rank are reduced where they lie, in memory that is mapped
// here too (arena.go), behind the rank's event. Calls that are to complete early are
// watched until their own event has happened (issued.go). Gradients of CPU ranks
// are staged through device memory (device.go). Each channel has a communicator
// and a stream (channel.go). docs/gpu.md says what is proven and what still needs
// a GPU.
//
// It imports core/base, core/contract, core/engine/cuda/dl, core/engine/cuda/driver, core/sdk,
// core/tensor and plugins/internal/instance. Start with do.go.
package nccl
