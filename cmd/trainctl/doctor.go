package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/trainctl/trainctl/cmd/trainctl/internal/doctor"
	"github.com/trainctl/trainctl/core/job/launch"
	"github.com/trainctl/trainctl/core/plugin/flight"
)

func doctorCommand(s *services) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check the machine, the plugins and the GPU libraries, and report what is missing",
		Long: `Check what a run needs from this machine: cores, shared memory, limits, network
names, the plugins, and NVIDIA's driver and libraries, each with path and version,
and a fix if something is missing. doctor does not train and allocates no device
memory. The exit code is 1 only if runs on the CPU would not work either.

With --run it shows the communication of a run instead, even if the run hangs or
all its processes are dead: the last operation of each rank, which ranks wait for
which, and up to 1,024 operations of each rank. For ranks that were killed, the
last tenth of a second may be missing.`,
		Example: "  trainctl doctor\n  trainctl doctor --json\n  trainctl doctor --run runs/mnist-ddp/latest",
		Args:    exactly(),
	}
	show := jsonFlag(cmd, "one JSON object")
	run := cmd.Flags().String("run", "", "show this `RUN`: its directory, its name, or latest")
	last := cmd.Flags().Int("last", 20, "with --run, show `N` operations of each rank; --json has all")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if *run != "" {
			r, err := flightReport(*run)
			if err != nil {
				return err
			}
			return show(r, func(w io.Writer) error { return r.Text(w, *last) })
		}
		d := diagnose(cmd.Context(), s)
		if err := show(d, d.Text); err != nil {
			return err
		}
		if n := d.Failures(); n > 0 {
			return reported{failedChecks(n)}
		}
		return nil
	}
	return cmd
}

func diagnose(ctx context.Context, s *services) doctor.Diagnosis {
	var builtin []doctor.Plugin
	for _, p := range s.Plugins.List() {
		builtin = append(builtin, doctor.Plugin{Kind: p.Kind, Name: p.Name, Version: p.Version})
	}
	return doctor.Diagnose(ctx, builtin, func(ctx context.Context, p doctor.Plugin) error {
		_, err := s.Plugins.Probe(ctx, p.Kind, p.Name, "")
		return err
	})
}

// flightReport reads the last operations of a run's ranks, dead or alive.
func flightReport(path string) (r *flight.Report, err error) {
	dir, err := findRun(defaultRuns, path)
	if err != nil {
		return nil, err
	}
	if r, err = flight.Read(dir.Flights()); err != nil {
		err = fmt.Errorf("%s: %w", dir.Path, err)
	}
	return r, err
}

// failedChecks is the error of checks that failed; what they found was printed.
type failedChecks int

func (e failedChecks) Error() string { return fmt.Sprintf("%d checks failed", int(e)) }
func (e failedChecks) ExitCode() int { return launch.ExitFailed }
