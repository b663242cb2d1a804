package main

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/trainctl/trainctl/core/engine/cuda/driver"
	"github.com/trainctl/trainctl/core/job/launch"
)

// verdict is the outcome of a check.
type verdict string

// The verdicts. Only a failure makes doctor's exit code 1.
const (
	fine    verdict = "ok"
	remark  verdict = "warn" // works, with a limitation that users should know
	broken  verdict = "fail"
	absence verdict = "none" // not present, and needed only by runs that use it
)

// check is the result of one of doctor's checks.
type check struct {
	Area    string  `json:"area"` // "machine", "plugins", "gpu"
	Name    string  `json:"name"`
	Verdict verdict `json:"verdict"`
	Found   string  `json:"found"`
	Fix     string  `json:"fix,omitempty"`
}

// diagnosis is what doctor prints.
type diagnosis struct {
	Schema int               `json:"schema"`
	Checks []check           `json:"checks"`
	GPU    driver.Inspection `json:"gpu"`
}

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
	asJSON := cmd.Flags().Bool("json", false, "print one JSON object")
	run := cmd.Flags().String("run", "", "show this `RUN`: its directory, its name, or latest")
	last := cmd.Flags().Int("last", 20, "with --run, show `N` operations of each rank; --json has all")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if *run != "" {
			return doctorRun(cmd, *run, *last, *asJSON)
		}
		d := diagnose(cmd.Context(), s)
		if *asJSON {
			if err := writeJSON(cmd.OutOrStdout(), d); err != nil {
				return err
			}
		} else if err := d.text(cmd.OutOrStdout()); err != nil {
			return err
		}
		return d.err()
	}
	return cmd
}

func diagnose(ctx context.Context, s *services) diagnosis {
	d := diagnosis{Schema: 1}
	d.Checks = append(machineChecks(ctx), pluginChecks(ctx, s)...)
	d.GPU = inspectGPU(ctx)
	d.Checks = append(d.Checks, gpuChecks(d.GPU)...)
	return d
}

// sick is the error of a diagnosis with failures; its text was printed already.
type sick struct{ failures int }

func (e sick) Error() string { return fmt.Sprintf("%d checks failed", e.failures) }
func (e sick) ExitCode() int { return launch.ExitFailed }

func (d *diagnosis) err() error {
	n := 0
	for _, c := range d.Checks {
		if c.Verdict == broken {
			n++
		}
	}
	if n == 0 {
		return nil
	}
	return reported{sick{n}}
}

func (d *diagnosis) text(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	area := ""
	for _, c := range d.Checks {
		if c.Area != area {
			area = c.Area
			fmt.Fprintf(tw, "%s\n", area)
		}
		fmt.Fprintf(tw, "  %s\t%s\t%s\n", c.Verdict, c.Name, c.Found)
		if c.Fix != "" && c.Verdict != fine {
			fmt.Fprintf(tw, "  \t\tfix: %s\n", c.Fix)
		}
	}
	return tw.Flush()
}
