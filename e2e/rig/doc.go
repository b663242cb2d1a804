// Package rig runs the real trainctl as a user does, in a directory of its own
// and with computed data, and checks what a user sees: exit codes, output,
// files, and processes. The end-to-end tests and the command e2e/faults use it.
//
// It imports core/plugin/flight, core/report/event, core/tensor and core/train/checkpoint, to
// read what runs leave, and core/sdk/pb, to find plugins among processes.
// Start with rig.go; run.go reads the results of a run, compare.go compares those of two, and
// tables.go has configurations that several packages use.
package rig
