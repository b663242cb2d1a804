// Package data distributes samples over ranks: the distributed sampler, the loader
// that prefetches batches, and the feeder that passes batches to steps.
//
// It imports core/base, core/report/timeline, core/sdk and core/tensor. Start with
// feeder.go, which the loop calls, and loader.go.
package data
