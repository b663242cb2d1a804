// Package timeline records what a rank did when, and writes it for trace viewers.
//
// A [Recorder] keeps the first and the last steps of a run in memory allocated at the
// start. A nil Recorder records nothing and does not read the clock, so callers need not
// check whether recording is on.
//
// It imports nothing else of this module. Start with recorder.go.
package timeline
