package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/trainctl/trainctl/core/bench"
	"github.com/trainctl/trainctl/core/launch"
	"github.com/trainctl/trainctl/core/tensor"
)

func benchCommand(s *services) *cobra.Command {
	return group(&cobra.Command{
		Use:   "bench",
		Short: "Measure this machine: collectives, training steps, kernels",
	}, benchAllReduceCommand(), benchStepCommand(s), benchKernelsCommand(), benchRankCommand())
}

func benchAllReduceCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "allreduce",
		Short: "Measure all-reduce between ranks of this host, over sizes",
		Long: `Measure all-reduce between ranks of this host: real rank processes, each with its
backend plugin, a buffer in shared memory that is scaled between two calls as a
gradient bucket is. p50 and p99 are those of the slowest rank. "in place" is the
median of threads of one process that reduce the same buffers with nothing in
between, measured before the ranks start: the machine's limit.`,
		Example: `  trainctl bench allreduce --nproc 2 --sizes 1KiB,64KiB,1MiB,25MiB --json
  trainctl bench allreduce --set backend.options.shm=false --idle 5`,
		Args: exactly(),
	}
	f := cmd.Flags()
	backend := f.String("backend", "tcp", "measure this plugin: a built-in `NAME` or a path")
	nproc := f.Int("nproc", 2, "start `N` ranks")
	sizes := f.String("sizes", "1KiB,16KiB,64KiB,256KiB,1MiB,4MiB,25MiB,64MiB", "comma-separated buffer `SIZES`")
	dtype := f.String("dtype", "f32", "reduce elements of this `TYPE`")
	idle := f.Float64("idle", 0, "compute for `MS` milliseconds between two calls")
	budget := f.Duration("budget", bench.DefaultBudget, "measure each size for this `TIME`")
	timeout := f.Duration("timeout", bench.DefaultTimeout, "give up on a call after this `TIME`")
	set := f.StringArray("set", nil, "give the plugin an option by `KEY=VALUE`, as backend.options.shm=false; repeatable")
	asJSON := f.Bool("json", false, "print one JSON object for each size")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		spec := bench.Spec{Backend: *backend, World: *nproc, Budget: *budget, Timeout: *timeout,
			Idle: time.Duration(*idle * float64(time.Millisecond))}
		var err error
		if spec.DType, err = tensor.ParseDType(*dtype); err != nil {
			return usagef("--dtype: %v", err)
		}
		if spec.Sizes, err = parseSizes(*sizes); err != nil {
			return usagef("--sizes: %v", err)
		}
		if spec.Options, err = parseOptions(*set); err != nil {
			return err
		}
		if err := spec.Check(); err != nil {
			return usagef("%v", err)
		}
		p, err := benchProgram()
		if err != nil {
			return err
		}
		print, flush := benchPrinter(cmd.OutOrStdout(), *asJSON)
		err = bench.AllReduce(cmd.Context(), p, spec, print)
		flush()
		return err
	}
	return cmd
}

// benchRankCommand is what bench starts.
func benchRankCommand() *cobra.Command {
	return &cobra.Command{
		Use: "rank", Hidden: true, Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			launch.WatchLifeline(nil)
			p, err := benchProgram()
			if err != nil {
				return err
			}
			return bench.Rank(cmd.Context(), p, cmd.OutOrStdout())
		},
	}
}

func benchProgram() (bench.Program, error) {
	exe, err := os.Executable()
	return bench.Program{Exe: exe, Args: []string{"bench", "rank"}, Builtins: builtins()}, err
}

// benchPrinter gives what prints a result when it comes, and what ends the output.
func benchPrinter(w io.Writer, asJSON bool) (print func(bench.Result) error, flush func()) {
	if asJSON {
		enc := json.NewEncoder(w)
		return func(r bench.Result) error { return enc.Encode(r) }, func() {}
	}
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	header := sync.OnceFunc(func() {
		fmt.Fprintln(tw, "SIZE\tP50 µs\tP99 µs\tGB/s\tBUS GB/s\tIN PLACE µs\tOF LIMIT\tCALLS\t")
	})
	print = func(r bench.Result) error {
		header()
		limit, share := "-", "-"
		if r.Limit > 0 {
			limit, share = fmt.Sprintf("%.1f", r.Limit), fmt.Sprintf("%.0f %%", 100*r.Limit/r.P50)
		}
		_, err := fmt.Fprintf(tw, "%s\t%.1f\t%.1f\t%.2f\t%.2f\t%s\t%s\t%d\t\n",
			formatSize(r.Bytes), r.P50, r.P99, r.AlgBW, r.BusBW, limit, share, r.Calls)
		return err
	}
	return print, func() { tw.Flush() }
}

var sizeUnits = []struct {
	name  string
	bytes int
}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"B", 1}, {"", 1}}

// parseSizes reads "1KiB,64KiB,1MiB" and plain numbers of bytes.
func parseSizes(list string) ([]int, error) {
	var out []int
	for _, text := range strings.Split(list, ",") {
		n, err := parseSize(strings.TrimSpace(text))
		if err != nil {
			return nil, err
		}
		out = append(out, n)
	}
	return out, nil
}

func parseSize(text string) (int, error) {
	for _, u := range sizeUnits {
		number, ok := strings.CutSuffix(text, u.name)
		if !ok {
			continue
		}
		n, err := strconv.Atoi(strings.TrimSpace(number))
		if err != nil || n <= 0 || n > 1<<40/u.bytes {
			break
		}
		return n * u.bytes, nil
	}
	return 0, fmt.Errorf("%q is no size such as 64KiB, 25MiB or 4096", text)
}

func formatSize(n int) string {
	for _, u := range sizeUnits {
		if n%u.bytes == 0 && n >= u.bytes {
			return fmt.Sprintf("%d %s", n/u.bytes, u.name)
		}
	}
	return strconv.Itoa(n)
}

// parseOptions reads --set backend.options.KEY=VALUE.
func parseOptions(sets []string) (map[string]any, error) {
	out := map[string]any{}
	for _, s := range sets {
		key, value, ok := strings.Cut(s, "=")
		name, known := strings.CutPrefix(strings.TrimSpace(key), "backend.options.")
		if !ok || !known || name == "" {
			return nil, usagef("--set %q: write --set backend.options.KEY=VALUE", s)
		}
		out[name] = bench.ParseOption(value)
	}
	return out, nil
}
