// Package nn builds models from the table [model]: it checks the table, creates the
// graph of the layers, and initialises parameters as PyTorch does, and as
// torchvision does for its ResNets.
//
// A named model is a list of layers that this package writes; see models.go.
// Problems are reported with keys relative to the table. Problems reports all that
// can be found without shapes at once, and Build the first one that needs shapes.
//
// It imports core/base, core/tensor and, of core/engine, graph, op and kernel.
// Start with build.go.
package nn
