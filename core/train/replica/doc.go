// Package replica holds one rank's copy of the model that all ranks train: tensors in the memory
// shared with the backend, their copy on a GPU, and the master weights. It broadcasts them from
// rank 0, and compares the ranks' copies.
//
// It imports core/base, core/engine, core/plugin/host, core/report/event, core/sdk,
// core/tensor and, of core/train, checkpoint, ddp, outline and recovery. Start with
// replicate.go.
package replica
