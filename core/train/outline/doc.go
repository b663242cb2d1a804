// Package outline plans one rank's training: everything that follows from the
// configuration and the shape of the data, before anything is started. That is the
// graph and its plans, gradient buckets, the layout of shared memory, the number of
// steps, and what the run needs from a backend.
//
// It imports core/base, core/engine, core/plugin/host, core/sdk, core/tensor and, of
// core/train, checkpoint, data, ddp and metric. Start with outline.go.
package outline
