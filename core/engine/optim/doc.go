// Package optim updates parameters from their gradients: SGD, Adam, AdamW
// and RMSprop with PyTorch's exact rules, LARS, gradient clipping, and learning rate schedules.
//
// One optimizer step, after gradients have been reduced over the ranks:
//
//	finite := opt.GradsFinite()       // agreed on by all ranks before anything else
//	opt.ScaleGrads(1 / lossScale)     // if there is a loss scale
//	norm := opt.ClipNorm(maxNorm)     // if max_norm is set
//	opt.Step(schedule.LR(applied))    // unless the step is skipped
//	applied++                         // a skipped step does not move the schedule
//
// It imports core/base/pages, core/base/usererr, core/tensor, core/engine/graph, core/engine/op, core/engine/kernel and
// core/engine/plan. Start with optimizer.go.
package optim
