package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/trainctl/trainctl/bench/internal/pairs"
	"github.com/trainctl/trainctl/core/bench"
)

// parts are what can be measured, in this order.
var parts = []string{"steady", "shares", "heal", "copy"}

type options struct {
	only         []string
	pairs, steps int
	segments     int           // of each job of steady
	segment      time.Duration // their length
	python, json string
	link         float64
}

// report is what -json writes; parts that were not measured are left out.
type report struct {
	Date    string       `json:"date"`
	Machine string       `json:"machine"`
	Steady  *steadied    `json:"steady,omitempty"`
	Shares  []pairs.Pair `json:"shares_steps_per_s,omitempty"` // even and automatic
	Heal    []healed     `json:"heal,omitempty"`
	Copy    *copied      `json:"copy,omitempty"`
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if len(os.Args) == 2 && os.Args[1] == spinArg {
		spin()
	}
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "elastic:", err)
		os.Exit(1)
	}
}

func parse(args []string) (o options, err error) {
	flags := flag.NewFlagSet("elastic", flag.ExitOnError)
	only := flags.String("only", "steady,shares", "comma-separated `parts` to measure: "+strings.Join(parts, ", "))
	flags.IntVar(&o.pairs, "pairs", 8, "pairs of jobs of steady, and runs of each side of shares")
	flags.IntVar(&o.segments, "segments", 20, "how often each of two jobs of steady has its turn")
	flags.DurationVar(&o.segment, "segment", 400*time.Millisecond, "the length of a turn of steady")
	flags.IntVar(&o.steps, "steps", 1500, "steps of a run of shares")
	flags.StringVar(&o.python, "python", "", "the Python that has torch; empty: heal measures trainctl alone")
	flags.Float64Var(&o.link, "link", 1, "bandwidth of the link of copy, in Gbit/s")
	flags.StringVar(&o.json, "json", "", "write everything to this `file`")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	o.only = strings.Split(*only, ",")
	for _, p := range o.only {
		if !slices.Contains(parts, p) {
			return o, fmt.Errorf("-only %s; fix: name some of %s", p, strings.Join(parts, ", "))
		}
	}
	if o.pairs < 2 || o.steps < 4*settled || o.link <= 0 {
		return o, fmt.Errorf("-pairs %d -steps %d -link %v; fix: at least 2 pairs and %d steps, and a link above 0", o.pairs, o.steps, o.link, 4*settled)
	}
	if o.segments < 2 || o.segment <= 0 {
		return o, fmt.Errorf("-segments %d -segment %v; fix: at least 2 segments, of some time", o.segments, o.segment)
	}
	return o, nil
}

func run(ctx context.Context, args []string, w io.Writer) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "trainctl-elastic-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	b := &measuring{options: o, dir: dir, w: w}
	var root string
	if b.trainctl, root, err = bench.Build(ctx, dir); err != nil {
		return err
	}
	b.script = root + "/bench/elastic/torch_elastic.py"
	r := report{Date: time.Now().UTC().Format(time.RFC3339), Machine: bench.MachineName()}
	fmt.Fprintf(w, "%s, %s\n", r.Machine, r.Date)
	measure := map[string]func(context.Context, *report) error{"steady": b.steady, "shares": b.shares, "heal": b.heal, "copy": b.copy}
	for _, p := range parts {
		if !slices.Contains(o.only, p) {
			continue
		}
		if err := measure[p](ctx, &r); err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
	}
	return bench.Save(o.json, r)
}

// measuring is one run of the command.
type measuring struct {
	options
	trainctl, script string
	dir              string // for everything that jobs write
	w                io.Writer
}
