// Package fakegpu stands for a machine with GPUs, CUDA and NCCL in tests: the
// structs of package driver filled with Go functions. Nothing in it computes
// on a device. What it shows is control flow, not speed and not what NVIDIA's
// libraries really do.
//
// Device memory is host memory behind made-up addresses, so that a use beyond
// an allocation is an error and not a crash. A stream is a queue that moves on
// whenever somebody asks. Communicators are of the kind that does not block:
// every call is in progress until it is asked about twice, and work on its
// stream in the meantime is refused, as the documentation of NCCL demands.
//
// Whatever is taken belongs to a [Process], whose death takes it away as the
// driver would. Processes of this test use the machine directly, others through
// [Machine.Serve] and [Dial]. Handles that cross between them are real
// descriptors, and bytes that name something of the machine. Where NVIDIA leaves
// undefined what a mistake does, the machine remembers it, and Left tells.
//
// It imports core/base/shm, core/engine/cuda/driver, core/sdk and core/tensor.
// Start with machine.go.
package fakegpu
