// Package event reports what happens in a run: typed events, sent through a Bus to
// sinks that write events.jsonl, TensorBoard files, Prometheus metrics and the
// progress display.
//
// A worker's Bus stamps every event with its rank, a sequence number and the time.
// The launcher decodes the workers' JSON lines with Decode and passes them to its own
// sinks, so that only one process draws on the terminal.
//
// It imports core/base. Start with event.go.
package event

import _ "github.com/trainctl/trainctl/core/base/system"
