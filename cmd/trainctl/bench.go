package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"strconv"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/trainctl/trainctl/core/bench"
	"github.com/trainctl/trainctl/core/config"
	"github.com/trainctl/trainctl/core/job/launch"
	"github.com/trainctl/trainctl/core/tensor"
)

func benchCommand(s *services) *cobra.Command {
	return group(&cobra.Command{
		Use:   "bench",
		Short: "Measure this machine: collectives, training steps, data loading, kernels",
	}, benchAllReduceCommand(), benchStepCommand(s), benchDataCommand(s), benchKernelsCommand(), benchRankCommand())
}

func benchAllReduceCommand() *cobra.Command {
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
the same lines as --json (see bench/allreduce).`,
		Example: `  trainctl bench allreduce --nproc 2 --sizes 1KiB,64KiB,1MiB,25MiB --json
  trainctl bench allreduce --hosts 2 --nproc 1 --against "python bench/allreduce/gloo.py"
  trainctl bench allreduce --set backend.options.shm=false --idle 5`,
		Args: exactly(),
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
			return usagef("--dtype: %v", err)
		}
		if spec.Sizes, err = parseSizes(*sizes); err != nil {
			return usagef("--sizes: %v", err)
		}
		if spec.Options, err = parseOptions("backend", *set); err != nil {
			return err
		}
		if err := spec.Check(); err != nil {
			return usagef("%v", err)
		}
		if err := checkLevel(); err != nil {
			return err
		}
		p, err := benchProgram()
		if err != nil {
			return err
		}
		p.Peer = strings.Fields(*against)
		print, flush := benchPrinter(cmd.OutOrStdout(), *asJSON)
		err = bench.AllReduce(cmd.Context(), p, spec, print)
		flush()
		if errors.Is(err, bench.ErrSkipped) {
			fmt.Fprintf(cmd.ErrOrStderr(), "--against: %v\n", err)
			return nil
		}
		return err
	}
	return cmd
}

// benchRankCommand is the hidden command that bench starts for each rank.
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

// benchPrinter returns a function that prints one result and one that ends the output.
func benchPrinter(w io.Writer, asJSON bool) (print func(bench.Result) error, flush func()) {
	if asJSON {
		enc := json.NewEncoder(w)
		return func(r bench.Result) error { return enc.Encode(r) }, func() {}
	}
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	header := sync.OnceFunc(func() {
		fmt.Fprintln(tw, "BACKEND\tSIZE\tP50 µs\tP99 µs\tIDLE µs\tGB/s\tBUS GB/s\tIN PLACE µs\tOF LIMIT\tCALLS\tRATIO\tGPU MiB\t")
	})
	first := map[int]float64{} // p50 of the first backend, by size
	print = func(r bench.Result) error {
		header()
		ratio := "-"
		if p50, again := first[r.Bytes]; again {
			ratio = fmt.Sprintf("%.2f", r.P50/p50)
		} else {
			first[r.Bytes] = r.P50
		}
		_, err := fmt.Fprintf(tw, "%s\t%s\t%.1f\t%.1f\t%s\t%.2f\t%.2f\t%s\t%s\t%d\t%s\t%s\t\n", strings.TrimSpace(r.Backend+" "+r.Isolation), formatSize(r.Bytes), r.P50, r.P99,
			ifPositive("%.1f", r.Idle), r.AlgBW, r.BusBW, ifPositive("%.1f", r.Limit), ifPositive("%.0f %%", 100*r.Limit/r.P50), r.Calls, ratio,
			ifPositive("%.0f", float64(r.DeviceBytes)/(1<<20)))
		return err
	}
	return print, func() { tw.Flush() }
}

// ifPositive formats a value, or a dash if it was not measured.
func ifPositive(format string, v float64) string {
	if v <= 0 {
		return "-"
	}
	return fmt.Sprintf(format, v)
}

var sizeUnits = []struct {
	name  string
	bytes int
}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"B", 1}, {"", 1}}

// parseSizes parses "1KiB,64KiB,1MiB" and plain numbers of bytes.
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
	return 0, fmt.Errorf("%q is not a size such as 64KiB, 25MiB or 4096", text)
}

func formatSize(n int) string {
	for _, u := range sizeUnits {
		if n%u.bytes == 0 && n >= u.bytes {
			return fmt.Sprintf("%d %s", n/u.bytes, u.name)
		}
	}
	return strconv.Itoa(n)
}

// parseOptions parses --set KIND.options.KEY=VALUE, with values as in the file,
// and --set KIND.options={KEY = VALUE}.
func parseOptions(kind string, sets []string) (map[string]any, error) {
	out := map[string]any{}
	for _, s := range sets {
		key, text, ok := strings.Cut(s, "=")
		name, known := strings.CutPrefix(strings.TrimSpace(key), kind+".options")
		name, dotted := strings.CutPrefix(name, ".")
		if !ok || !known || dotted != (name != "") {
			return nil, usagef("--set %q: write --set %s.options.KEY=VALUE", s, kind)
		}
		value, err := config.ParseValue(strings.TrimSpace(text))
		if err != nil {
			return nil, usagef("--set %q: %v", s, err)
		}
		table, isTable := value.(map[string]any)
		switch {
		case dotted:
			out[name] = value
		case isTable:
			maps.Copy(out, table)
		default:
			return nil, usagef("--set %q: %s.options is a table: write {KEY = VALUE}", s, kind)
		}
	}
	return out, nil
}
