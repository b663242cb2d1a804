// Package graph describes a model as a graph of operations on typed values, and
// differentiates it once, before anything runs.
//
// A graph speaks of one sample: batched values carry the shape of one, and the
// plan puts the batch dimension in front. What the operations are, with their
// shape and gradient rules, is package op's. The gradient is more graph: nodes
// appended behind the forward ones, in the order in which PyTorch's autograd would
// visit them, so that gradients become complete in the order in which
// DistributedDataParallel sees them arrive.
//
// Types are left open. A value of type F32 means "floating point"; the plan
// chooses F64, F16 or BF16 for it from the run's precision policy.
//
// It imports core/tensor. Start with graph.go.
package graph
