// Package trace runs a plugin for a moment and records the calls that it gets, with sizes
// and times, to see what a rank says to it.
//
// It imports core/base/shm, core/plugin/host, core/sdk and core/tensor. Start with trace.go.
package trace
