// Package sinks has what the launcher and the ranks keep of a run's events: the summary of
// a run that did not reach its end, and the lines of the ranks' logs.
//
// It imports core/job/launch, core/report/event and core/train/checkpoint. Start with
// account.go.
package sinks
