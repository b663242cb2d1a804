package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"text/tabwriter"

	"github.com/trainctl/trainctl/core/base/bytesize"
)

// ResultPrinter returns a function that prints one result and one that ends the output.
func ResultPrinter(w io.Writer, asJSON bool) (print func(Result) error, flush func()) {
	if asJSON {
		enc := json.NewEncoder(w)
		return func(r Result) error { return enc.Encode(r) }, func() {}
	}
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	header := sync.OnceFunc(func() {
		fmt.Fprintln(tw, "BACKEND\tSIZE\tP50 µs\tP99 µs\tIDLE µs\tGB/s\tBUS GB/s\tIN PLACE µs\tOF LIMIT\tCALLS\tRATIO\tGPU MiB\t")
	})
	first := map[int]float64{} // p50 of the first backend, by size
	print = func(r Result) error {
		header()
		ratio := "-"
		if p50, again := first[r.Bytes]; again {
			ratio = fmt.Sprintf("%.2f", r.P50/p50)
		} else {
			first[r.Bytes] = r.P50
		}
		_, err := fmt.Fprintf(tw, "%s\t%s\t%.1f\t%.1f\t%s\t%.2f\t%.2f\t%s\t%s\t%d\t%s\t%s\t\n", strings.TrimSpace(r.Backend+" "+r.Isolation), bytesize.Text(r.Bytes), r.P50, r.P99,
			ifPositive("%.1f", r.Idle), r.AlgBW, r.BusBW, ifPositive("%.1f", r.Limit), ifPositive("%.0f %%", 100*r.Limit/r.P50), r.Calls, ratio,
			ifPositive("%.0f", float64(r.DeviceBytes)/(1<<20)))
		return err
	}
	return print, func() { tw.Flush() }
}

// KernelPrinter returns a function that prints one kernel's result and one that ends
// the output.
func KernelPrinter(w io.Writer, asJSON bool) (print func(KernelResult) error, flush func() error) {
	if asJSON {
		enc := json.NewEncoder(w)
		return func(r KernelResult) error { return enc.Encode(r) }, func() error { return nil }
	}
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tw, "KERNEL\tSHAPE\tP50 µs\tMIN µs\tFLOOR µs\tOF FLOOR\tGFLOP/s\tGB/s\t")
	return func(r KernelResult) error {
		_, err := fmt.Fprintf(tw, "%s\t%s\t%.1f\t%.1f\t%.1f\t%.0f %%\t%.1f\t%.1f\t\n",
			r.Name, r.Shape, r.P50, r.Min, r.Floor, 100*r.OfFloor, r.GFLOPS, r.GBps)
		return err
	}, tw.Flush
}

// JSON writes the report on one line.
func (r *DataReport) JSON(w io.Writer) error { return json.NewEncoder(w).Encode(r) }

// Text writes the results as a table.
func (r *DataReport) Text(w io.Writer) error {
	if r.Notice != "" {
		fmt.Fprintln(w, r.Notice)
	}
	fmt.Fprintf(w, "%s (%s): %d training samples of %d bytes; batch %d, %d ahead; ranks %d, threads %d each, cores %d. First batch after %.1f ms.\n",
		r.Plugin, r.Source, r.Samples, r.SampleBytes, r.Batch, r.Prefetch, r.Ranks, r.Threads, r.CPUs, r.FirstMS)
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tw, "EPOCH\tBATCHES\tSAMPLES/s\tMB/s\tBATCH P50 ms\tP99 ms\tPLUGIN CORES\tSAMPLES/s PER CORE\tRANK CORES\t")
	for _, d := range r.Results {
		fmt.Fprintf(tw, "%s\t%d\t%.0f\t%.0f\t%.3f\t%.3f\t%s\t%s\t%s\t\n", d.Epochs, d.Batches, d.SamplesPerSec, d.MBPerSec, d.P50, d.P99,
			ifPositive("%.2f", d.PluginCores), ifPositive("%.0f", d.PerCore), ifPositive("%.2f", d.RankCores))
	}
	if err := tw.Flush(); err != nil || r.Bound == "" {
		return err
	}
	_, err := fmt.Fprintf(w, "Bound by %s.\n", r.Bound)
	return err
}

// JSON writes the report on one line.
func (r *StepReport) JSON(w io.Writer) error { return json.NewEncoder(w).Encode(r) }

// Text writes the operations as a table.
func (r *StepReport) Text(w io.Writer) error {
	fmt.Fprintf(w, "%s, batch %d, threads %d. ", r.Model, r.Batch, r.Threads)
	r.Machine.Text(w)
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tw, "LAYER\tOPERATION\tP50 µs\tFLOOR µs\tOF FLOOR\tGFLOP/s\t")
	for _, s := range r.Steps {
		fmt.Fprintf(tw, "%s\t%s\t%.1f\t%.1f\t%.0f %%\t%.1f\t\n", s.Layer, s.Op, s.P50, s.Floor, 100*s.OfFloor, s.GFLOPS)
	}
	us, floor := r.total()
	fmt.Fprintf(tw, "all\t\t%.1f\t%.1f\t%.0f %%\t\t\n", us, floor, 100*floor/us)
	return tw.Flush()
}

// Text writes the measured rates, from which floors are computed, on one line.
func (m *Machine) Text(w io.Writer) {
	fmt.Fprintf(w, "One core, %s: %.0f GFLOP/s", m.Level, m.GFLOPS)
	if m.BF16 > 0 {
		fmt.Fprintf(w, ", %.0f of bf16", m.BF16)
	}
	for _, c := range m.Caches {
		fmt.Fprintf(w, ", %.0f GB/s in %s (stores: %.0f)", c.GBps, bytesize.Text(c.Bytes), c.Written)
	}
	fmt.Fprintln(w)
}

// ifPositive formats a value, or a dash if it was not measured.
func ifPositive(format string, v float64) string {
	if v <= 0 {
		return "-"
	}
	return fmt.Sprintf(format, v)
}
