// Package submit is the command family "trainctl submit": it writes jobs for batch systems.
//
// It imports cmd/trainctl/internal/cli, core/config and core/job. Start with submit.go.
package submit
