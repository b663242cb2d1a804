// Package fakegpu is a fake machine with GPUs, CUDA, NCCL, cuBLASLt and cuDNN for
// tests: the structs of package driver filled with Go functions. It tests control
// flow and results, not speed and not how NVIDIA's libraries behave.
//
// There are two fakes. This one is in Go, for tests of one package: it counts and
// refuses calls as a test requests, records mistakes, and simulates any number of
// processes in one. core/engine/cuda/cudatest compiles libraries that the real program
// opens, for tests of several processes. Both report the same mistakes.
//
// Device memory is host memory; use beyond an allocation is an error and not a
// crash. A stream is a queue that advances when it is queried, and copies to the
// device are slow, so a missing wait gives a wrong result. A machine made by
// [Computing] runs kernels: core/engine/cuda/kernels, which the NVRTC of cudatest
// compiles for the CPU. [BLAS] and [DNN] compute in float64 in its memory, and reject
// what the libraries reject.
//
// Communicators are non-blocking: every call is in progress until it has been queried
// twice, and work on its stream in the meantime is rejected, as the NCCL documentation
// requires.
//
// Resources belong to a [Process] and are released when it dies, as the driver does.
// Processes of this test use the machine directly, others through [Machine.Serve]
// and [Dial]. Handles shared between them are real file descriptors, and bytes that
// identify an object of the machine. Where NVIDIA leaves the result of a mistake
// undefined, the machine records the mistake and Left returns it; a computing machine
// fails the test at once.
//
// It imports core/base/dl, core/base/shm, core/contract, core/engine/cuda and core/tensor. Start with machine.go.
package fakegpu
