// Package nn builds models from the table [model]: it checks the table, lays
// out the layers as a graph, and initialises parameters as PyTorch does, and as
// torchvision does for its ResNets.
//
// A named model is nothing but a list of layers that this package writes
// itself; see models.go. Problems are reported with keys relative to the
// table, all at once as far as they can be seen without shapes (Problems), and
// then the first that shapes show (Build).
//
// It imports core/base, core/tensor and, of core/engine, graph, op and kernel.
// Start with build.go.
package nn
