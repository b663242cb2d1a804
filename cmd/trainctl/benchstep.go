package main

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/trainctl/trainctl/core/bench"
)

func benchStepCommand(s *services) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "step CONFIG",
		Short: "Measure each operation of a training step",
		Long: `Measure each operation of one rank's training step, as planned for the configuration,
on random data: forward, loss and backward, without optimizer, communication and data
loading. "floor" is the larger of two times: operations over the core's peak, and bytes
over its bandwidth; both rates are measured first. "of floor" exceeds 100 % if an
algorithm needs fewer multiplications than the definition.`,
		Example: "  trainctl bench step configs/mnist-ddp.toml --set train.per_rank_batch=100",
		Args:    exactly("CONFIG"),
	}
	measureConfig(cmd, s, 2*time.Second, "bench step", func() measurement[*bench.StepReport] { return s.Bench }, printSteps)
	return cmd
}

func printSteps(w io.Writer, r *bench.StepReport) error {
	fmt.Fprintf(w, "%s, batch %d, threads %d. ", r.Model, r.Batch, r.Threads)
	printMachine(w, &r.Machine)
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tw, "LAYER\tOPERATION\tP50 µs\tFLOOR µs\tOF FLOOR\tGFLOP/s\t")
	for _, s := range r.Steps {
		fmt.Fprintf(tw, "%s\t%s\t%.1f\t%.1f\t%.0f %%\t%.1f\t\n", s.Layer, s.Op, s.P50, s.Floor, 100*s.OfFloor, s.GFLOPS)
	}
	us, floor := r.Total()
	fmt.Fprintf(tw, "all\t\t%.1f\t%.1f\t%.0f %%\t\t\n", us, floor, 100*floor/us)
	return tw.Flush()
}

// printMachine prints the measured rates behind the floors.
func printMachine(w io.Writer, m *bench.Machine) {
	fmt.Fprintf(w, "One core, %s: %.0f GFLOP/s", m.Level, m.GFLOPS)
	if m.BF16 > 0 {
		fmt.Fprintf(w, ", %.0f of bf16", m.BF16)
	}
	for _, c := range m.Caches {
		fmt.Fprintf(w, ", %.0f GB/s in %s", c.GBps, formatSize(c.Bytes))
	}
	fmt.Fprintln(w)
}
