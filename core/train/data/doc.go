// Package data decides which sample goes where: the distributed sampler, the
// loader that keeps batches ahead of the training step, and the feeder that gives
// a step its batches.
//
// It imports core/base, core/report/timeline, core/sdk and core/tensor. Start with
// feeder.go, which the loop asks, and loader.go.
package data
