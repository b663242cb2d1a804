// Package failures holds end-to-end tests of what goes wrong, and of what the user sees then: mistakes in the
// configuration and checkpoints, damaged data, processes that die or hang, signals, full disks and
// training that diverges. heal_test.go has what a run survives.
//
// Each is a few runs with their own assertions. The fault matrix of docs/faults.md, which applies one list
// of faults to one job, is the command e2e/faults.
package failures
