package main

import (
	"encoding/json"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/trainctl/trainctl/core/bench"
)

func benchKernelsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "kernels",
		Short: "Measure the CPU kernels against this core's peak and bandwidth",
		Long: `Measure the CPU kernels on one thread, on the shapes of the models' training steps.
"floor" is the larger of operations over the core's peak and bytes over the bandwidth
of the cache they fit into, both measured first; "of floor" exceeds 100 % where an
algorithm needs fewer multiplications than the definition. TRAINCTL_CPU forces an
instruction set, TRAINCTL_CONV=direct leaves Winograd out.`,
		Example: `  trainctl bench kernels --match conv2d
  TRAINCTL_CPU=avx2 trainctl bench kernels --json`,
		Args: exactly(),
	}
	match := cmd.Flags().String("match", "", "measure kernels whose name and shape contain `TEXT`")
	budget := cmd.Flags().Duration("budget", 100*time.Millisecond, "measure each kernel for this `TIME`")
	asJSON := cmd.Flags().Bool("json", false, "print one JSON object for the machine and one for each kernel")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := checkLevel(); err != nil {
			return err
		}
		m, err := bench.Measure(*budget)
		if err != nil {
			return err
		}
		w := cmd.OutOrStdout()
		if *asJSON {
			enc := json.NewEncoder(w)
			if err := enc.Encode(m); err != nil {
				return err
			}
			return bench.Kernels(cmd.Context(), &m, *match, *budget, func(r bench.KernelResult) error { return enc.Encode(r) })
		}
		printMachine(w, &m)
		tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
		fmt.Fprintln(tw, "KERNEL\tSHAPE\tP50 µs\tMIN µs\tFLOOR µs\tOF FLOOR\tGFLOP/s\tGB/s\t")
		err = bench.Kernels(cmd.Context(), &m, *match, *budget, func(r bench.KernelResult) error {
			_, err := fmt.Fprintf(tw, "%s\t%s\t%.1f\t%.1f\t%.1f\t%.0f %%\t%.1f\t%.1f\t\n",
				r.Name, r.Shape, r.P50, r.Min, r.Floor, 100*r.OfFloor, r.GFLOPS, r.GBps)
			return err
		})
		tw.Flush()
		return err
	}
	return cmd
}
