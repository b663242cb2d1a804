// Package bench measures the parts of a training step: collectives through a backend
// plugin, and kernels.
//
// AllReduce starts real ranks from the caller's executable, each with its backend in
// another process and its buffer in a shared arena, as a job does. Such a process runs
// [Rank]. [InPlace] measures the limit of the machine, with threads in one process.
//
// It imports the packages that it measures: core/base, core/engine, core/job,
// core/plugin/host, core/sdk, core/tensor and core/train. Start with
// allreduce.go.
package bench
