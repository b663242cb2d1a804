// Package activation binds the operations of core/engine/op/activation to the kernels of
// core/engine/kernel, a file each. pointwise.go has what they share.
//
// It imports core/tensor and, of core/engine, cpu/bind, graph, op, plan and kernel. Start with
// tanh.go.
package activation
