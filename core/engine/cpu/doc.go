// Package cpu runs plans on the processor: cpu.go is the device, executor.go a bound plan.
// Package bind prepares steps, package ops binds each operation to its kernels.
//
// It imports core/base/pages, core/tensor and, of core/engine, cpu/bind, cpu/ops, graph and plan. Start with
// cpu.go.
package cpu
