// Package event is how a run tells what happens: typed events, sent through a
// Bus to sinks that write events.jsonl, TensorBoard files, Prometheus metrics
// and the progress display.
//
// A worker's Bus stamps every event with its rank, a sequence number and the
// time. The launcher reads the workers' JSON lines back with Decode and gives
// them to its own sinks, so that only one process draws on the terminal.
//
// It imports core/base. Start with event.go.
package event
