// Package watch is the command "trainctl watch": it shows a run on the terminal until it ends.
//
// It imports cmd/trainctl/internal/cli, core/report,
// core/plugin/flight and core/train/checkpoint.
package watch
