// Package fakegpu stands for a machine with GPUs, CUDA, NCCL, cuBLASLt and cuDNN in
// tests: the structs of package driver filled with Go functions. What it shows
// is control flow and results, not speed and not what NVIDIA's libraries really do.
//
// There are two fakes, for two purposes. This one is in Go, for tests of one
// package: it counts and refuses what a test asks for, remembers mistakes, and has any number
// of processes within one. core/engine/cuda/cudatest compiles libraries that the real
// program opens, for tests of several processes. Both make the same mistakes known.
//
// Device memory is host memory; a use beyond an allocation is an error and not a
// crash. A stream is a queue that moves on whenever somebody asks, and copies to
// the device are slow, so that a missing wait gives a wrong result. A machine of [Computing]
// runs kernels: core/engine/cuda/kernels, which the fake NVRTC of cudatest compiles for
// the processor. [BLAS] and [DNN] compute in float64 on its memory, and refuse
// what the libraries refuse.
//
// Communicators are of the kind that does not block: every call is in progress
// until it is asked about twice, and work on its stream in the meantime is
// refused, as the documentation of NCCL demands.
//
// Whatever is taken belongs to a [Process], whose death takes it away as the
// driver would. Processes of this test use the machine directly, others through
// [Machine.Serve] and [Dial]. Handles that cross between them are real
// descriptors, and bytes that name something of the machine. Where NVIDIA leaves
// undefined what a mistake does, the machine remembers it, and Left tells; a
// computing one ends the test at once.
//
// It imports core/base/shm, core/contract, core/engine/cuda and core/tensor. Start with machine.go.
package fakegpu
