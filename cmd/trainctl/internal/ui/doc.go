// Package ui is the command "trainctl ui": it serves the pages of runs.
//
// It imports internal/builtins, cmd/trainctl/internal/cli, core/report/ui and
// core/train/checkpoint.
package ui
