// Command allreduce measures the TCP backend's all-reduce in turn with that of gloo,
// the backend of PyTorch jobs on CPUs, on this machine:
//
//	go run ./bench/allreduce -python .venv/bin/python
//
// Both use two ranks: on one host, where trainctl's plugins reduce in shared memory
// and gloo uses loopback, and in two network namespaces joined by a virtual Ethernet
// device, where both use TCP. trainctl's ranks are those of "trainctl bench
// allreduce", gloo's are gloo.py. Both scale the buffer between two calls, and the
// median of the slowest rank counts. A round measures all sizes of both sides; the
// table shows medians over rounds, and the ratio is the median of the rounds' ratios.
// -json FILE writes every single result.
//
// If a machine lacks torch or namespaces, that part is skipped with the reason.
//
// It imports bench/internal/selfrank, core/bench and core/tensor. Start with main.go.
package main
