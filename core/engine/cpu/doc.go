// Package cpu runs plans on the processor. Each file binds one family of steps
// to the kernels of core/engine/kernel.
//
// Binding resolves every operand to a slice and every geometry to a struct, so
// that a step at run time is a call of a closure and nothing else. A plan in
// float64 computes in float64, any other in float32: operands of half types are
// widened into workspace before a kernel and rounded after it, so every
// operation rounds once, as hardware that multiplies in half and adds in float does.
// Where there are kernels for bfloat16 itself, bf16.go binds those instead.
//
// It imports core/base/shm, core/tensor and, of core/engine, graph, op, plan
// and kernel (core/engine). Start with cpu.go.
package cpu
