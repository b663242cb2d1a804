// Package train is the training loop. It reads from top to bottom: Setup
// (setup.go) makes a Trainer from plugins and configuration, Run (loop.go)
// walks epochs, step (step.go) is one optimizer step, evaluate.go and
// resume.go are what their names say.
//
// It imports core/base, core/engine, core/job/rank, core/plugin/host,
// core/report, core/sdk, core/tensor and, of core/train, data, ddp and
// checkpoint (core/train). Start with step.go.
package train
