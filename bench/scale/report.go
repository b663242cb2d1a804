package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	tcp "github.com/trainctl/trainctl/plugins/backend-tcp"
)

// report is what -json writes.
type report struct {
	Date      string      `json:"date"`
	Machine   string      `json:"machine"`
	Load      []string    `json:"load"` // before and after
	Jobs      []measured  `json:"jobs"`
	Constants *constants  `json:"constants,omitempty"`
	Checked   []checked   `json:"checked,omitempty"`
	Network   *tcp.Cost   `json:"network,omitempty"` // of the predictions
	Predicted []predicted `json:"predicted,omitempty"`
}

// checked is a prediction beside the measurement, in milliseconds: the time of a step, and the CPU
// time of all ranks for it. Other work on the machine makes steps longer, but adds little to their CPU time.
type checked struct {
	Ranks        int     `json:"ranks"`
	Hosts        int     `json:"hosts"`
	Measured     float64 `json:"measured_ms"`
	Predicted    float64 `json:"predicted_ms"`
	MeasuredCPU  float64 `json:"measured_cpu_ms"`
	PredictedCPU float64 `json:"predicted_cpu_ms"`
}

// predicted is the time of a step, in milliseconds. By algorithm it is that of ranks which have a
// host each.
type predicted struct {
	Ranks  int                `json:"ranks"`
	Hosts  int                `json:"hosts"`
	StepMS float64            `json:"step_ms"`
	Chosen string             `json:"chosen"` // for a bucket
	Of     map[string]float64 `json:"by_algorithm_ms"`
}

func (r *report) printJobs(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tw, "RANKS\tFIRST STEP s\tCPU s\tSTORE MESSAGES\tPROCESSES\tPSS MiB\tMiB/RANK\tDESCRIPTORS\tSOCKETS\tMOST OF A PROCESS\tTHREADS\tSTEP ms\tCOMM ms\tSTEP CPU ms\t")
	for i := range r.Jobs {
		m := &r.Jobs[i]
		u, mib := &m.Usage, float64(m.Usage.PSS)/(1<<20)
		fmt.Fprintf(tw, "%d\t%.2f\t%.2f\t%d\t%d\t%.0f\t%.1f\t%d\t%d\t%d\t%d\t%.2f\t%.2f\t%.2f\t\n", m.Ranks, m.FirstStepS, m.StartCPUS, m.Messages*m.Ranks,
			u.Processes, mib, mib/float64(m.Ranks), u.Descriptors, u.Sockets, u.Most, u.Threads, m.StepMS, m.CommMS, m.StepCPUMS)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	for i := range r.Jobs {
		m := &r.Jobs[i]
		var words []string
		for _, phase := range slices.Sorted(maps.Keys(m.PhaseS)) {
			name := phase
			if name == "" {
				name = "start"
			}
			words = append(words, fmt.Sprintf("%s %.2f", name, m.PhaseS[phase]))
		}
		if _, err := fmt.Fprintf(w, "%d ranks, seconds: %s\n", m.Ranks, strings.Join(words, ", ")); err != nil {
			return err
		}
	}
	return nil
}

func (r *report) printPredictions(w io.Writer) error {
	c := r.Constants
	fmt.Fprintf(w, "\na step of one rank %.2f ms, with %.2f ms of CPU time, %d buckets of %.0f bytes; all-reduces in shared memory %v", c.Step/1e6, c.CPU/1e6, c.Buckets, c.Bytes, c.Shared)
	for _, k := range c.Crowded {
		fmt.Fprintf(w, "; a step keeps a core for %.2f ms and %.3f ms for each rank of the job", k.Wall.Fixed/1e6, k.Wall.Peer/1e6)
		if k.Inproc {
			fmt.Fprint(w, " where plugins run in their rank's process")
		}
	}
	if c.Net.Alpha > 0 {
		fmt.Fprintf(w, "; between namespaces %v", c.Net)
	}
	fmt.Fprint(w, "\n\n")
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tw, "RANKS\tPREDICTED STEP ms\tMEASURED\tOFF\tPREDICTED CPU ms\tMEASURED\tOFF\t")
	for _, p := range r.Checked {
		fmt.Fprintf(tw, "%d\t%.2f\t%.2f\t%.0f %%\t%.2f\t%.2f\t%.0f %%\t\n", p.Ranks, p.Predicted, p.Measured, 100*off(p.Predicted, p.Measured),
			p.PredictedCPU, p.MeasuredCPU, 100*off(p.PredictedCPU, p.MeasuredCPU))
	}
	fmt.Fprintf(tw, "\n%v; by algorithm: a host per rank\n", r.Network)
	names := tcp.Algorithms(false)
	fmt.Fprintf(tw, "RANKS\tHOSTS\tSTEP ms\tCHOSEN\t%s ms\t\n", strings.Join(names, " ms\t"))
	for _, p := range r.Predicted {
		fmt.Fprintf(tw, "%d\t%d\t%.2f\t%s\t", p.Ranks, p.Hosts, p.StepMS, p.Chosen)
		for _, a := range names {
			fmt.Fprintf(tw, "%.2f\t", p.Of[a])
		}
		fmt.Fprintln(tw)
	}
	return tw.Flush()
}

func (l linear) String() string {
	return fmt.Sprintf("%.1f µs and %.3f ns per byte", l.Call/1e3, l.Byte)
}
