// Package watch shows a run on a terminal: [Lines] is a block with its progress, sparklines of loss
// and speed, what its ranks do, and its last events; [Plain] is the same as lines of a log.
// [Usage] measures the processor time of ranks on this host.
//
// It imports core/base/decimal and core/report/rundir. Start with block.go.
package watch
