package main

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/trainctl/trainctl/core/bench"
)

func benchDataCommand(s *services) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "data CONFIG",
		Short: "Measure how fast the data set delivers batches",
		Long: `Measure how fast the configuration's data set delivers training batches, without
training. All ranks of this host read as in training: each from its own plugin process,
through its own slots in shared memory, with the same prefetch. "bound" names the
bottleneck. A model whose step takes longer than a batch here does not wait for data;
in a run, data_ms of each step reports the wait.`,
		Example: `  trainctl bench data configs/mnist-ddp.toml --set train.per_rank_batch=100
  trainctl bench data configs/imagenet-resnet50.toml --nproc-per-node 1 --set launch.threads_per_rank=1`,
		Args: exactly("CONFIG"),
	}
	measureConfig(cmd, s, 5*time.Second, "bench data", func() measurement[*bench.DataReport] { return s.BenchData }, printData)
	return cmd
}

func printData(w io.Writer, r *bench.DataReport) error {
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
