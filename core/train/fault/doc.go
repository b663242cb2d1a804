// Package fault injects the faults that the table [faults] lists: it kills ranks and plugins, makes
// them hang, delays ranks, silences nodes, damages checkpoints and fills the disk, each before a
// given step, to show that a run survives them.
//
// It imports core/base/pattern, core/base/system (where builds for Windows stop), core/base/usererr and core/train/checkpoint. Start with config.go.
package fault
