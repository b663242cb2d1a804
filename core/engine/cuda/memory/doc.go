// Package memory says what lies where on a GPU, and moves it.
//
// The host's memory that was mirrored is resident ([Residency]): its copy on the
// device is what programs read and write. A [Program] has the addresses of one
// bound plan's operands; any other State than a resident one is copied as a run begins and ends.
//
// Weights that steps read in a half type have working copies, which stay from
// run to run (copies.go). Three kinds of transfers run beside kernels: batches ahead of their runs
// (prefetch.go), gradient buckets to the host and back (staging.go), and
// none at all where a backend maps the memory itself (arena.go, export.go), in an order
// that events keep (events.go).
//
// It imports core/contract, core/engine/cuda/driver, core/engine/cuda/gpu,
// core/engine/cuda/kernels, core/engine/plan and core/tensor. Start with residency.go.
package memory
