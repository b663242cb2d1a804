// Package observer delivers the events of a run to observer plugins without ever making
// the run wait: each observer has a bounded queue, a goroutine that delivers it in batches, and
// a time limit at the end of the run. What an observer misses is counted.
//
// It imports core/report/event. Start with sink.go.
package observer
