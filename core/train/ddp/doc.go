// Package ddp turns gradients that become ready one by one during backward
// into bucketed all-reduces that run beside it.
//
// It imports core/base, core/engine/kernel, core/engine/plan,
// core/report/timeline, core/sdk and core/tensor. Start with reduce.go.
package ddp
