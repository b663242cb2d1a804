// Command allreduce measures the TCP backend's all-reduce against that of gloo,
// which PyTorch jobs on CPUs use, in turn on this machine:
//
//	go run ./bench/allreduce -python .venv/bin/python
//
// Two ranks each: on one host, where trainctl's plugins reduce in shared memory
// and gloo goes over loopback, and in two network namespaces joined by a virtual
// Ethernet cable, where both go over TCP. Our ranks are what "trainctl bench
// allreduce" starts, gloo's are gloo.py: both scale the buffer between two
// calls, and the slowest rank's median counts. A round measures all sizes of
// both sides; the table has medians over rounds, and the ratio is the median of
// the rounds' ratios. -json FILE keeps every single result.
//
// What is missing on a machine, torch or namespaces, is left out and said.
//
// It imports core/bench, core/job/launch, core/plugin/host, core/sdk,
// core/tensor and plugins/backend-tcp. Start with main.go.
package main
