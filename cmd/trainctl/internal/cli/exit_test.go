package cli

import (
	"errors"
	"fmt"
	"testing"

	"github.com/trainctl/trainctl/core/config"
	"github.com/trainctl/trainctl/core/job/rank"
	"github.com/trainctl/trainctl/core/plugin/host"
	"github.com/trainctl/trainctl/core/train/checkpoint"
	"github.com/trainctl/trainctl/core/train/ddp"
)

func TestExitCode(t *testing.T) {
	start := &host.StartError{Name: "./gone", Problem: "no such file"}
	one := config.Diagnostic{Severity: config.SeverityError}
	warning := config.Diagnostic{Severity: config.SeverityWarning}
	for _, tc := range []struct {
		name string
		err  error
		want int
	}{
		{"none", nil, 0},
		{"any", errors.New("x"), 1},
		{"usage", fmt.Errorf("x: %w", Usagef("y")), 2},
		{"configuration", &config.Error{Diagnostics: []config.Diagnostic{one}}, 2},
		{"plugin", fmt.Errorf("x: %w", start), 3},
		{"plugin that was ended while it started", fmt.Errorf("x: %w", &host.StartError{Name: "tcp", Problem: "signal: killed", Fault: true}), 1},
		{"ranks that disagree", fmt.Errorf("x: %w", &ddp.DisagreementError{Detail: "rank 1 has another configuration"}), 2},
		{"configuration whose plugin is missing", &config.Error{Diagnostics: []config.Diagnostic{one, warning}, Causes: []error{start}}, 3},
		{"configuration with more than a missing plugin", &config.Error{Diagnostics: []config.Diagnostic{one, one}, Causes: []error{start}}, 2},
		{"checkpoint", fmt.Errorf("x: %w", &checkpoint.UnusableError{Path: "p"}), 6},
		{"environment", fmt.Errorf("x: %w", &rank.EnvError{Source: "torchrun", Detail: "RANK is missing"}), 2},
		{"a summary that was not written after a rank failed", OfRun(errors.New("summary: no such directory"), 5), 5},
		{"a summary that was not written after all went well", OfRun(errors.New("summary: no such directory"), 0), 1},
		{"already written", Reported(Usagef("y")), 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := ExitCode(tc.err); got != tc.want {
				t.Errorf("%v: exit code %d, want %d", tc.err, got, tc.want)
			}
		})
	}
}
