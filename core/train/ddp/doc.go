// Package ddp averages gradients over ranks: it collects gradients in buckets as
// backward completes them, and all-reduces the buckets while backward continues.
//
// It imports core/base, core/engine/kernel, core/engine/plan,
// core/report/timeline, core/sdk and core/tensor. Start with reduce.go.
package ddp
