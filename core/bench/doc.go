// Package bench measures what a training step is made of: collectives through
// a backend plugin, and kernels.
//
// AllReduce starts real ranks, the caller's executable again, each with its
// backend in another process and its buffer in a shared arena, as a job does.
// [Rank] is what such a process runs. [InPlace] measures what the machine
// would allow if there were no processes at all.
//
// It imports the packages that it measures: core/base, core/engine, core/job,
// core/plugin/host, core/sdk, core/tensor and core/train. Start with
// allreduce.go.
package bench
