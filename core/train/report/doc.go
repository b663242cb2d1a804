// Package report emits the events of steps and evaluations, and collects metrics and the
// statistics of the summary.
//
// It imports core/report/event, core/tensor and, of core/train, agreement, metric, outline and
// passes. Start with report.go.
package report
