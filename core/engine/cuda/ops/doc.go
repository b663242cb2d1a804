// Package ops turns each step of a plan into library calls and kernel launches: one
// file per operation, with its kernels in core/engine/cuda/kernels.
//
// A [Binder] first analyses the whole plan: flow.go finds the step that produced each
// operand, core/engine/plan/layout the images that are stored channels-last. Then each file's
// function adds the launches of the step (bind.go, item.go). cuDNN computes
// convolutions and cuBLASLt matrix products where they can (product.go); kernels
// compute the rest.
//
// It imports core/engine/cuda, core/engine/graph, core/engine/kernel/move, core/engine/op, core/engine/plan, core/engine/plan/layout
// and core/tensor. Start with bind.go.
package ops
