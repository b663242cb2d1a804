// Package bind prepares the steps of a plan for the processor: it resolves every operand to
// a slice and every geometry to a struct, so that running a step only calls a closure. Operations are entered by
// Implement (implement.go); core/engine/cpu/ops has them. A kernel sees its operands through a
// Binder (operand.go), and shares work among threads (workers.go), each on a core of its own (apart.go).
//
// A float64 plan computes in float64, any other in float32. A step on half types runs on kernels for
// them where there are any (bf16.go), else block by block through float32 (blocks.go), else
// through float32 copies of whole tensors. Each way rounds once, like
// hardware that multiplies in half precision and accumulates in float32.
//
// It imports core/base/cores, core/base/pages and core/base/shm, core/tensor and, of core/engine, graph, op, plan and kernel. Start
// with bind.go.
package bind
