package bench

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/trainctl/trainctl/cmd/trainctl/internal/cli"
	"github.com/trainctl/trainctl/core/app"
	"github.com/trainctl/trainctl/core/base/cgroup"
	"github.com/trainctl/trainctl/core/bench"
	"github.com/trainctl/trainctl/core/config"
)

// Command returns trainctl bench.
func Command(p *cli.Program) *cobra.Command {
	return cli.Group(&cobra.Command{
		Use:   "bench",
		Short: "Measure this machine: collectives, training steps, data loading, kernels, cores",
	}, allReduceCommand(p), stepCommand(p), dataCommand(p), kernelsCommand(), coresCommand(), rankCommand(p))
}

// measured is the report of a measurement.
type measured interface {
	Text(w io.Writer) error
	JSON(w io.Writer) error
}

// measureConfig makes cmd measure its configuration for about a given time, usual if
// --budget is not set, and print the report.
func measureConfig[R measured](cmd *cobra.Command, p *cli.Program, usual time.Duration, measure func(context.Context, *config.Config, time.Duration) (R, error)) *cobra.Command {
	budget := cmd.Flags().Duration("budget", usual, "measure for this `TIME`")
	show := cli.JSONFlag(cmd, "one JSON object")
	return p.WithConfig(cmd, func(cmd *cobra.Command, c *config.Config) error {
		r, err := measure(cmd.Context(), c, *budget)
		if err != nil {
			return err
		}
		return show(r, r.Text)
	})
}

func stepCommand(p *cli.Program) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "step CONFIG",
		Short: "Measure each operation of a training step",
		Long: `Measure each operation of one rank's training step, as planned for the configuration,
on random data: forward, loss and backward, without optimizer, communication and data
loading. "floor" is the largest of three times: operations over the core's peak, bytes over
its bandwidth, and bytes written over that of stores; all rates are measured first.
"of floor" exceeds 100 % if an algorithm needs fewer multiplications than the definition.`,
		Example: "  trainctl bench step configs/mnist-ddp.toml --set train.per_rank_batch=100",
	}
	return measureConfig(cmd, p, 2*time.Second, func(ctx context.Context, c *config.Config, budget time.Duration) (*bench.StepReport, error) {
		o := p.Forecast(c)
		o.OpenData = true
		return app.BenchStep(ctx, o, budget)
	})
}

func dataCommand(p *cli.Program) *cobra.Command {
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
	}
	return measureConfig(cmd, p, 5*time.Second, func(ctx context.Context, c *config.Config, budget time.Duration) (*bench.DataReport, error) {
		return app.BenchData(ctx, app.BenchDataOptions{Config: c, Builtins: p.Builtins, Budget: budget})
	})
}

func coresCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cores",
		Short: "Measure what several threads reach together, beside one",
		Long: `Measure what several threads of this machine reach together, beside one alone, in turn:
multiply-adds in registers, and additions in each level of the caches and in memory.
Nothing is shared or synchronised, so "times" is the most that launch.threads_per_rank or
another rank can gain here.`,
		Example: "  trainctl bench cores --threads 4",
		Args:    cli.Exactly(),
	}
	threads := cmd.Flags().Int("threads", 0, "measure `N` threads (default: the cores that this process may use)")
	budget := cmd.Flags().Duration("budget", time.Second, "measure each loop for this `TIME`")
	show := cli.JSONFlag(cmd, "one JSON object")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := cli.CheckLevel(); err != nil {
			return err
		}
		n := *threads
		if n == 0 {
			n = cgroup.Cores()
		}
		if n < 1 {
			return cli.Usagef("--threads %d: want at least 1", n)
		}
		r, err := bench.Cores(cmd.Context(), n, *budget)
		if err != nil {
			return err
		}
		return show(r, r.Text)
	}
	return cmd
}

func kernelsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "kernels",
		Short: "Measure the CPU kernels against this core's peak and bandwidth",
		Long: `Measure the CPU kernels on one thread, on the shapes of the models' training steps.
"floor" is the largest of operations over the core's peak, bytes over the bandwidth of
the cache they fit into, and bytes written over that of stores there, all measured
first; "of floor" exceeds 100 % where an algorithm needs fewer multiplications than the
definition. TRAINCTL_CPU forces an instruction set, TRAINCTL_CONV=direct leaves Winograd out.

--check fails if a convolution takes more than 1.3 times as long as by the algorithm
that is best for it, and names it; --random adds convolutions that are not in the list.`,
		Example: `  trainctl bench kernels --match conv2d
  TRAINCTL_CPU=avx2 trainctl bench kernels --json
  trainctl bench kernels --random 100 --seed 7
  trainctl bench kernels --check --random 100 --seed 7 --budget 20ms`,
		Args: cli.Exactly(),
	}
	match := cmd.Flags().String("match", "", "measure kernels whose name and shape contain `TEXT`")
	budget := cmd.Flags().Duration("budget", 100*time.Millisecond, "measure each kernel for this `TIME`")
	algorithms := cmd.Flags().Bool("algorithms", false, "measure convolutions by each algorithm, and how far the chosen one is from the best")
	check := cmd.Flags().Bool("check", false, "as --algorithms, and fail if a choice is more than 1.3 times as slow as the best")
	random := cmd.Flags().Int("random", 0, "add `N` convolutions drawn at random")
	seed := cmd.Flags().Uint64("seed", 1, "draw them from `SEED`")
	rounds := cmd.Flags().Int("rounds", 1, "with --algorithms or --check, measure all convolutions `N` times")
	threads := cmd.Flags().Int("threads", 1, "with --algorithms or --check, share each convolution among `N` threads")
	asJSON := cmd.Flags().Bool("json", false, "print one JSON object for the machine and one for each kernel")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := cli.CheckLevel(); err != nil {
			return err
		}
		w := cmd.OutOrStdout()
		if *algorithms || *check {
			o := bench.AlgorithmOptions{Match: *match, Random: *random, Seed: *seed, Threads: *threads, Budget: *budget, Rounds: *rounds}
			print, flush := bench.AlgorithmPrinter(w, o.Table(), *asJSON)
			measure := bench.Algorithms
			if *check {
				measure = bench.CheckAlgorithms
			}
			return errors.Join(measure(cmd.Context(), o, print), flush())
		}
		m, err := bench.Measure(*budget)
		if err != nil {
			return err
		}
		if *asJSON {
			if err := json.NewEncoder(w).Encode(m); err != nil {
				return err
			}
		} else {
			m.Text(w)
		}
		o := bench.KernelOptions{Match: *match, Random: *random, Seed: *seed, Budget: *budget}
		print, flush := bench.KernelPrinter(w, *asJSON)
		return errors.Join(bench.Kernels(cmd.Context(), &m, o, print), flush())
	}
	return cmd
}
