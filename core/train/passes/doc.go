// Package passes runs the forward and backward passes of a step over its micro-batches,
// with one compiled program per batch shape, and hands gradients to the reducer as they
// become complete.
//
// It imports core/base, core/engine, core/report, core/sdk, core/tensor and, of
// core/train, data, ddp, metric, outline and replica. Start with passes.go.
package passes
