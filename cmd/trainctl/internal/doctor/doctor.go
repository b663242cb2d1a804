package doctor

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/trainctl/trainctl/core/engine/cuda/driver"
)

// Verdict is the outcome of a check.
type Verdict string

// The verdicts. Runs on the CPU do not work after a fail.
const (
	fine    Verdict = "ok"
	remark  Verdict = "warn" // works, with a limitation that users should know about
	broken  Verdict = "fail"
	absence Verdict = "none" // not present, and needed only by runs that use it
)

// Check is the result of one of doctor's checks.
type Check struct {
	Area    string  `json:"area"` // "machine", "plugins", "gpu"
	Name    string  `json:"name"`
	Verdict Verdict `json:"Verdict"`
	Found   string  `json:"found"`
	Fix     string  `json:"fix,omitempty"`
}

// Diagnosis holds the result of all checks.
type Diagnosis struct {
	Schema int               `json:"schema"`
	Checks []Check           `json:"checks"`
	GPU    driver.Inspection `json:"gpu"`
}

// Diagnose checks the machine, starts each of the plugins with probe, and inspects the
// GPU libraries.
func Diagnose(ctx context.Context, plugins []Plugin, probe Probe) Diagnosis {
	d := Diagnosis{Schema: 1}
	d.Checks = append(machineChecks(ctx), pluginChecks(ctx, plugins, probe)...)
	d.GPU = inspectGPU(ctx)
	d.Checks = append(d.Checks, gpuChecks(d.GPU)...)
	return d
}

// Failures counts the checks that failed.
func (d *Diagnosis) Failures() (n int) {
	for _, c := range d.Checks {
		if c.Verdict == broken {
			n++
		}
	}
	return n
}

// Text prints the checks by area, with the fix of those that found something.
func (d *Diagnosis) Text(w io.Writer) error {
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
