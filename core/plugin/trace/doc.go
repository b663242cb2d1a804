// Package trace makes the calls that a rank makes in a short run, and records them with their
// sizes and times.
//
// It imports core/base/shm, core/plugin/host, core/report/event, core/sdk and core/tensor. Start with trace.go.
package trace
