package plugins

import (
	"fmt"
	"io"
	"log/slog"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/trainctl/trainctl/cmd/trainctl/internal/cli"
	"github.com/trainctl/trainctl/core/base/bytesize"
	"github.com/trainctl/trainctl/core/plugin/host"
	"github.com/trainctl/trainctl/core/plugin/registry"
	"github.com/trainctl/trainctl/core/plugin/trace"
	"github.com/trainctl/trainctl/core/sdk"
)

func traceCommand(p *cli.Program) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "trace PLUGIN",
		Short: "Record the calls that a plugin gets in a short run",
		Long: `Start a plugin as the only rank of a job would, read a few batches, update the loss
scale, deliver a few events, call a layer forward and backward or all-reduce a few buckets, and print every call with its bytes and its time:
messages of gRPC, and operations of the ring in shared memory. A trace ends with the
call that fails.`,
		Example: "  trainctl plugins trace mine --kind dataset --set dataset.options.root=data",
		Args:    cli.Exactly("PLUGIN"),
	}
	f := cmd.Flags()
	kind := f.String("kind", "", "`KIND` of plugin if the binary serves several: "+registry.KindNames())
	set := f.StringArray("set", nil, "set an option of the plugin by `KEY=VALUE`, such as dataset.options.root=data; repeatable")
	steps := f.Int("steps", 8, "read `N` batches, update the loss scale N times, deliver N events, call a layer forward and backward N times, or all-reduce N buckets")
	batch := f.Int("batch", 64, "read batches of `N` samples, or call a layer with them")
	bucket := f.Int("bucket-kb", 1024, "all-reduce buckets of `N` KiB")
	rules := sandboxFlags(cmd)
	show := cli.JSONFlag(cmd, "one JSON array")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := knownKind(*kind); err != nil {
			return err
		}
		for name, n := range map[string]int{"steps": *steps, "batch": *batch, "bucket-kb": *bucket} {
			if n < 1 || n > 1<<20 {
				return cli.Usagef("--%s %d: give 1 to %d", name, n, 1<<20)
			}
		}
		info, given, options, err := configured(cmd.Context(), p.Host, *kind, args[0], *set, rules)
		if err != nil {
			return err
		}
		key := host.Key{Kind: sdk.Kind(info.Kind), Plugin: args[0]}
		o := host.Options{Builtins: p.Builtins, Terms: map[host.Key]host.Terms{key: {Sandbox: rules(key.Kind, given)}}, Log: slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil))}
		calls, err := trace.Run(cmd.Context(), o, trace.Spec{Kind: sdk.Kind(info.Kind), Plugin: args[0], Options: options, Steps: *steps, Batch: *batch, Bytes: *bucket << 10})
		list := tracedCalls(calls)
		if werr := show(list, func(w io.Writer) error { return traceTable(w, list) }); werr != nil {
			return werr
		}
		return err
	}
	return cmd
}

// tracedCall is a call as it is printed.
type tracedCall struct {
	AtMS     float64 `json:"at_ms"` // since the first call
	Call     string  `json:"call"`
	By       string  `json:"by"` // "grpc" or "ring"
	Sent     int     `json:"sent_bytes"`
	Received int     `json:"received_bytes"`
	TookMS   float64 `json:"took_ms"`
	Error    string  `json:"error,omitempty"`
}

func tracedCalls(calls []host.Call) []tracedCall {
	out := make([]tracedCall, len(calls))
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1e3 }
	for i, c := range calls {
		out[i] = tracedCall{AtMS: ms(c.Began.Sub(calls[0].Began)), Call: c.Name, By: "grpc", Sent: c.Sent, Received: c.Received, TookMS: ms(c.Took)}
		if c.Ring {
			out[i].By = "ring"
		}
		if c.Err != nil {
			out[i].Error = c.Err.Error()
		}
	}
	return out
}

func traceTable(w io.Writer, list []tracedCall) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "AT\tCALL\tBY\tSENT\tRECEIVED\tTOOK\tERROR")
	for _, c := range list {
		fmt.Fprintf(tw, "%.1f ms\t%s\t%s\t%s\t%s\t%.2f ms\t%s\n", c.AtMS, c.Call, c.By, bytesize.Text(c.Sent), bytesize.Text(c.Received), c.TookMS, c.Error)
	}
	return tw.Flush()
}
