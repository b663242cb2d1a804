// Package timeline records what a rank did when, and writes it for trace viewers.
//
// A [Recorder] keeps the first and the last steps of a run in memory that it
// has from the start. A nil Recorder records nothing and does not look at the
// clock, so callers need not ask whether it is on.
//
// It imports nothing else of this module. Start with recorder.go.
package timeline
