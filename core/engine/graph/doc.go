// Package graph represents a model as a graph of operations on typed values, and
// differentiates it once, before anything runs.
//
// A graph describes one sample: the shape of a batched value is that of one sample,
// and the plan prepends the batch dimension. Package op defines the operations with
// their shape and gradient rules. Differentiation appends gradient nodes after the
// forward nodes, in the order in which PyTorch's autograd would visit them, so
// gradients become complete in the order in which DistributedDataParallel receives
// them.
//
// Types are left open. A value of type F32 means "floating point"; the plan
// chooses F64, F16 or BF16 for it according to the run's precision policy.
//
// It imports core/base/rng and core/tensor. Start with graph.go.
package graph
