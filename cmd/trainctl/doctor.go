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

// verdict says whether a check found what a run needs.
type verdict string

// The verdicts. Only a failure makes doctor's exit code 1.
const (
	fine    verdict = "ok"
	remark  verdict = "warn" // works, with a limit that a user should know
	broken  verdict = "fail"
	absence verdict = "none" // not here, and needed only by who asks for it
)

// check is one thing that doctor looked at.
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
		Short: "Look at the machine, the plugins and the GPU libraries, and say what is missing",
		Long: `doctor looks at what a run needs of this machine: cores, shared memory, limits,
network names, the plugins, and NVIDIA's driver and libraries, each with the
path, the version, and what to do where something is missing. It trains nothing
and takes no device memory. The exit code is 1 only when runs on the CPU would
not work either.

With --run it looks at a run instead, also at one that hangs or whose processes
are all dead: where each rank's communication stands, who waits for whom, and
the last operations, up to 1,024 of each rank. Of ranks that were killed, what
their plugin did in the last tenth of a second may be missing.`,
		Example: "  trainctl doctor\n  trainctl doctor --json\n  trainctl doctor --run runs/mnist-ddp/latest",
		Args:    exactly(),
	}
	asJSON := cmd.Flags().Bool("json", false, "print one JSON object")
	run := cmd.Flags().String("run", "", "look at `RUN`: its directory, its name, or latest")
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

// sick is a diagnosis with failures; its text was printed already.
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
