// Package update applies averaged gradients to the weights: unscaling, clipping, the
// optimizer, the learning-rate schedule, the loss scale, and the end of a run that
// diverges.
//
// It imports core/engine, core/plugin/host, core/sdk, core/tensor and, of core/train,
// ddp, outline and replica. Start with update.go.
package update
