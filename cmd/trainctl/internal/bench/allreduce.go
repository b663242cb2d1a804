package bench

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/trainctl/trainctl/cmd/trainctl/internal/cli"
	"github.com/trainctl/trainctl/core/bench"
	"github.com/trainctl/trainctl/core/job/launch"
	"github.com/trainctl/trainctl/core/tensor"
)

func allReduceCommand(program *cli.Program) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "allreduce",
		Short: "Measure all-reduce between ranks of this host for several sizes",
		Long: `Measure all-reduce between ranks of this host. Each rank is a process with its own
backend plugin and a buffer in shared memory, which it scales between two calls, like a
gradient bucket. p50 and p99 are those of the slowest rank. "in place" is the median
for threads of one process that reduce the same buffers directly, measured before the
ranks start: the machine's limit. "idle" is the median of calls that all ranks make
right after sleeping.

With --hosts the ranks run in network namespaces, --nproc in each, joined by
virtual Ethernet; this needs root. --against then runs the ranks of another program
on the same hosts: their environment has torchrun's variables, with a free port for
rank 0's store, and the sizes to measure in TRAINCTL_BENCH (JSON); rank 0 must print
the same lines as --json (see bench/allreduce).

Started by mpirun, srun or torchrun, it measures all-reduce between their ranks, also on
several hosts, and rank 0 prints the results. The backend mpi can be measured only so.`,
		Example: `  trainctl bench allreduce --nproc 2 --sizes 1KiB,64KiB,1MiB,25MiB --json
  trainctl bench allreduce --hosts 2 --nproc 1 --against "python bench/allreduce/gloo.py"
  trainctl bench allreduce --set backend.options.shm=false --idle 5
  mpirun -n 2 trainctl bench allreduce --backend mpi`,
		Args: cli.Exactly(),
	}
	f := cmd.Flags()
	backend := f.String("backend", "tcp", "measure this plugin: a built-in `NAME` or a path")
	nproc := f.Int("nproc", 2, "start `N` ranks, on every host with --hosts")
	hosts := f.Int("hosts", 0, "spread the ranks over `N` network namespaces")
	against := f.String("against", "", "also measure the ranks of this `COMMAND`")
	sizes := f.String("sizes", "1KiB,16KiB,64KiB,256KiB,1MiB,4MiB,25MiB,64MiB", "comma-separated buffer `SIZES`")
	dtype := f.String("dtype", "f32", "reduce elements of this `TYPE`")
	idle := f.Float64("idle", 0, "compute for `MS` milliseconds between two calls")
	rest := f.Duration("rest", bench.DefaultRest, "sleep for this `TIME` before idle calls; 0 skips them")
	budget := f.Duration("budget", bench.DefaultBudget, "measure each size for this `TIME`")
	timeout := f.Duration("timeout", bench.DefaultTimeout, "give up on a call after this `TIME`")
	set := f.StringArray("set", nil, "set an option of the plugin to a value by `KEY=VALUE`, such as backend.options.shm=false; repeatable")
	asJSON := f.Bool("json", false, "print one JSON object for each size")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		spec := bench.Spec{Backend: *backend, World: *nproc * max(1, *hosts), Hosts: *hosts, Budget: *budget, Timeout: *timeout, Rest: *rest,
			Idle: time.Duration(*idle * float64(time.Millisecond))}
		var err error
		if spec.DType, err = tensor.ParseDType(*dtype); err != nil {
			return cli.Usagef("--dtype: %v", err)
		}
		if spec.Sizes, err = bench.ParseSizes(*sizes); err != nil {
			return cli.Usagef("--sizes: %v", err)
		}
		if spec.Options, err = cli.ParseOptions("backend", *set); err != nil {
			return err
		}
		if err := spec.Check(); err != nil {
			return cli.Usagef("%v", err)
		}
		if err := cli.CheckLevel(); err != nil {
			return err
		}
		p, err := self(program)
		if err != nil {
			return err
		}
		p.Peer = strings.Fields(*against)
		print, flush := bench.ResultPrinter(cmd.OutOrStdout(), *asJSON)
		defer flush()
		return measure(cmd, p, spec, print)
	}
	return cmd
}

// measure measures ranks that it starts, or those that another launcher has started.
func measure(cmd *cobra.Command, p bench.Program, spec bench.Spec, print func(bench.Result) error) error {
	if w, launched := bench.Launched(os.LookupEnv); launched {
		if cmd.Flags().Changed("nproc") || spec.Hosts > 0 || len(p.Peer) > 0 {
			return cli.Usagef("%s has started %d ranks, which are measured: --nproc, --hosts and --against are for ranks that this command starts", w.Source, w.Size)
		}
		return bench.AllReduceAs(cmd.Context(), w, p, spec, print)
	}
	err := bench.AllReduce(cmd.Context(), p, spec, print)
	if errors.Is(err, bench.ErrSkipped) {
		fmt.Fprintf(cmd.ErrOrStderr(), "--against: %v\n", err)
		return nil
	}
	return err
}

// rankCommand is the hidden command that bench starts for each rank.
func rankCommand(program *cli.Program) *cobra.Command {
	return &cobra.Command{
		Use: "rank", Hidden: true, Args: cli.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			launch.WatchLifeline(nil)
			p, err := self(program)
			if err != nil {
				return err
			}
			return bench.Rank(cmd.Context(), p, cmd.OutOrStdout())
		},
	}
}

func self(program *cli.Program) (bench.Program, error) {
	exe, err := os.Executable()
	return bench.Program{Exe: exe, Args: []string{"bench", "rank"}, Builtins: program.Builtins}, err
}
