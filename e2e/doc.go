// Package e2e runs the real trainctl as a user does, in directories of its
// own and with computed data, and looks at what a user sees: exit codes,
// outputs, files, and processes.
//
// It imports core/plugin/flight, core/report/event and core/train/checkpoint,
// to read what runs leave. Start with rig.go.
package e2e
