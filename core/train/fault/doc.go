// Package fault makes faults on purpose, as the table [faults] lists them: it kills ranks
// and plugins, makes them hang, delays ranks, silences nodes, damages checkpoints and
// fills the disk, each before a given step, so that a run can be seen to survive them.
//
// It imports core/base/usererr and core/train/checkpoint. Start with config.go.
package fault
