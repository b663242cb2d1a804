// Package sweep is the command "trainctl sweep": it tries settings of a configuration.
//
// It imports internal/builtins, cmd/trainctl/internal/cli, core/app, core/base/cgroup, core/config,
// core/job/launch, core/report/page, core/sweep and core/train/checkpoint. Start with sweep.go.
package sweep
