// Package bench measures the parts of a training step: collectives through a backend
// plugin, the operations of a step, data loading, and kernels. The subcommands of
// "trainctl bench" print its reports.
//
// AllReduce starts real ranks from the caller's executable, each with its backend in
// another process and its buffer in a shared arena, as a job does. Such a process runs
// [Rank]. [inPlace] measures the limit of the machine, with threads in one process.
//
// Other measurements are elsewhere: the command in bench runs whole training jobs,
// alternating with PyTorch; the command in bench/allreduce runs AllReduce, alternating
// with gloo; gputest/run.sh runs both on a machine with GPUs; and the Benchmark functions
// in each package measure one function.
//
// It imports the packages that it measures: core/base, core/engine, core/job,
// core/plugin/host, core/sdk, core/tensor and core/train. Start with
// allreduce.go.
package bench
