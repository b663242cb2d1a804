// Package ops makes each step of a plan calls of libraries and kernels of our
// own: an operation is one file here, beside its kernels in core/engine/cuda/kernels.
//
// A [Binder] looks at the plan as a whole first: flow.go says which step made what a
// step reads, layout.go which images have their channels last. Then each file's
// function adds the step's launches (bind.go, item.go). cuDNN makes convolutions and
// cuBLASLt matrix products where they can (product.go); kernels do the rest.
//
// It imports core/engine/cuda, core/engine/graph, core/engine/op, core/engine/plan
// and core/tensor. Start with bind.go.
package ops
