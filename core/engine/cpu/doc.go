// Package cpu runs plans on the processor. Each file binds one family of steps
// to the kernels of core/engine/kernel.
//
// Binding resolves every operand to a slice and every geometry to a struct, so
// that running a step only calls a closure. A float64 plan computes in float64, any
// other in float32: operands of half types are converted to float32 in workspace
// before a kernel and rounded after it, so every operation rounds once, like
// hardware that multiplies in half precision and accumulates in float32.
// bf16.go binds bfloat16 kernels for the operations that have them.
//
// It imports core/base/shm, core/tensor and, of core/engine, graph, op, plan
// and kernel (core/engine). Start with cpu.go.
package cpu
