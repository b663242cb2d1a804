// Package report is the command "trainctl report": a page of one or several runs.
//
// It imports internal/builtins, cmd/trainctl/internal/cli, core/report and
// core/train/checkpoint. Start with report.go.
package report
