// Package data decides which sample goes where: the distributed sampler and
// the loader that keeps batches ahead of the training step.
//
// It imports core/base, core/sdk and core/tensor. Start with loader.go.
package data
