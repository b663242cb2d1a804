// Package elementwise has the kernels that treat every element alike: sums and
// products, activations with their gradients, dropout, and rows picked from a table.
//
// It imports core/tensor and core/engine/kernel. Start with elementwise.go.
package elementwise
