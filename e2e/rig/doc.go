// Package rig runs the real trainctl as a user does, in a directory of its own
// and with computed data, and checks what a user sees: exit codes, output,
// files, and processes. The end-to-end tests and the command e2e/faults use it.
//
// It imports core/plugin/flight and core/report/event, to read what runs leave, and
// core/sdk/pb, to find plugins among processes.
// Start with rig.go.
package rig
