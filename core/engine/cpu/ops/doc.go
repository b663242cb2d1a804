// Package ops binds the operations of a plan to the kernels of core/engine/kernel, a file
// each. An operation registers itself when the program starts.
//
// It imports core/tensor and, of core/engine, cpu/bind, graph, op, plan and kernel. Start with
// linear.go.
package ops
