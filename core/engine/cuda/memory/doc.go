// Package memory manages GPU memory and the copies to and from it.
//
// Mirrored host memory is resident ([Residency]): programs read and write its copy
// on the device. A [Program] has the addresses of the operands of one bound plan; a
// State that is not resident is copied at the start and the end of each run.
//
// Weights that steps read in a half type have working copies, which are kept from
// run to run (copies.go). Two kinds of copies overlap with kernels: prefetched
// batches (prefetch.go), and gradient buckets to the host and back (staging.go). A
// backend that maps device memory needs no copies (arena.go, export.go); events
// order its work and the rank's (events.go).
//
// It imports core/contract, core/engine/cuda/driver, core/engine/cuda/gpu,
// core/engine/cuda/kernels, core/engine/plan and core/tensor. Start with residency.go.
package memory
