package commands

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/trainctl/trainctl/cmd/trainctl/internal/cli"
	"github.com/trainctl/trainctl/cmd/trainctl/internal/doctor"
	"github.com/trainctl/trainctl/core/plugin/flight"
	"github.com/trainctl/trainctl/core/sdk"
)

func doctorCommand(p *cli.Program) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check the machine, the plugins and the GPU libraries, and report what is missing",
		Long: `Check what a run needs from this machine: cores, shared memory, limits, network
names, the plugins, and NVIDIA's driver and libraries, each with path and version,
and a fix if something is missing. doctor does not train and allocates no device
memory. The exit code is 1 only if runs on the CPU would not work either.

With --run it shows the communication of a run instead, even if the run hangs or
all its processes are dead: the last operation of each rank, which ranks wait for
which, the rank that the others wait for in most steps, and up to 1,024 operations
of each rank. For ranks that were killed, the
last tenth of a second may be missing.`,
		Example: "  trainctl doctor\n  trainctl doctor --json\n  trainctl doctor --run runs/mnist-ddp/latest",
		Args:    cli.Exactly(),
	}
	show := cli.JSONFlag(cmd, "one JSON object")
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
		d := diagnose(cmd.Context(), p)
		if err := show(d, d.Text); err != nil {
			return err
		}
		if n := d.Failures(); n > 0 {
			return cli.Reported(fmt.Errorf("%d checks failed", n))
		}
		return nil
	}
	return cmd
}

func diagnose(ctx context.Context, p *cli.Program) doctor.Diagnosis {
	var builtin []doctor.Plugin
	for _, b := range p.Host.List() {
		builtin = append(builtin, doctor.Plugin{Kind: string(b.Kind), Name: b.Name, Version: b.Version})
	}
	return doctor.Diagnose(ctx, builtin, func(ctx context.Context, b doctor.Plugin) error {
		_, err := p.Host.Probe(ctx, sdk.Kind(b.Kind), b.Name)
		return err
	})
}

// flightReport reads the last operations of a run's ranks, dead or alive.
func flightReport(path string) (r *flight.Report, err error) {
	dir, err := cli.FindRun(cli.DefaultRuns, path)
	if err != nil {
		return nil, err
	}
	if r, err = flight.Read(dir.Flights()); err != nil {
		err = fmt.Errorf("%s: %w", dir.Path, err)
	}
	return r, err
}
