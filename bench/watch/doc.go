// Command watch measures what the main job's ConvNet costs more while somebody watches it on the page of
// trainctl ui:
//
//	go run ./bench/watch
//
// It trains on two ranks with and without a client that follows the run as the page does: an open event
// stream, new data of the charts at most every 0.9 s after something has changed, and new text every 10 s.
// It prints the median step of both sides and, because a difference of some thousandths is lost in the noise
// of most machines, the processor time that the server takes for each second of the run. -json FILE writes
// every single pair.
//
// It imports bench/internal/pairs, core/bench, core/report/event and core/report/rundir. Start with main.go.
package main
