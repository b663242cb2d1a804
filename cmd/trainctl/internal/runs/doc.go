// Package runs has the commands "trainctl runs": they list, compare, tag and remove runs.
//
// It imports internal/builtins, cmd/trainctl/internal/cli, core/report and
// core/train/checkpoint. Start with runs.go.
package runs
