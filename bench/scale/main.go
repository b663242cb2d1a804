package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/trainctl/trainctl/bench/internal/selfrank"
	"github.com/trainctl/trainctl/core/base/cgroup"
	"github.com/trainctl/trainctl/core/bench"
)

type options struct {
	ranks        []int
	hosts, batch int
	rounds       int
	predict      bool
	latency      time.Duration
	bandwidth    float64
	perHost      int
	reproducible bool
	isolation    string
	json         string
}

func main() { selfrank.Main("scale", run) }

func run(ctx context.Context, args []string) error {
	o := options{ranks: []int{2, 4, 8, 16}}
	flags := flag.NewFlagSet("scale", flag.ExitOnError)
	flags.Func("ranks", "comma-separated `numbers` of ranks to measure; default 2,4,8,16", func(text string) error {
		return json.Unmarshal([]byte("["+text+"]"), &o.ranks)
	})
	flags.IntVar(&o.hosts, "hosts", 0, "spread the ranks over this many network namespaces; needs root")
	flags.IntVar(&o.batch, "batch", 8, "samples per rank and step")
	flags.IntVar(&o.rounds, "rounds", 3, "runs of every job, in turn; the fastest counts")
	flags.BoolVar(&o.predict, "predict", false, "also measure the constants of the model, and predict up to 1024 ranks")
	flags.DurationVar(&o.latency, "latency", 20*time.Microsecond, "of the network to predict for")
	flags.Float64Var(&o.bandwidth, "bandwidth", 1.25, "of the network to predict for, in GB/s")
	flags.IntVar(&o.perHost, "per-host", 1, "ranks on each host to predict for, which share memory and each have a core")
	flags.BoolVar(&o.reproducible, "reproducible", true, "predict for the backend's option of this name")
	flags.StringVar(&o.isolation, "isolation", "auto", "launch.isolation of the jobs; the model is of one value at a time")
	flags.StringVar(&o.json, "json", "", "write everything to this `file`")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if err := o.check(); err != nil {
		return err
	}
	return measure(ctx, &o, os.Stdout, os.Stderr)
}

// check refuses flags with which no job could run, or another one than they name.
func (o *options) check() error {
	switch {
	case len(o.ranks) == 0 || slices.Min(o.ranks) < 1:
		return fmt.Errorf("-ranks %v; fix: give numbers of 1 or more", o.ranks)
	case o.hosts < 0 || o.batch < 1 || o.rounds < 1:
		return fmt.Errorf("-hosts %d -batch %d -rounds %d; fix: -hosts is 0 or more, the others 1 or more", o.hosts, o.batch, o.rounds)
	case o.predict && !(o.bandwidth > 0 && o.latency >= 0 && o.perHost > 0):
		return fmt.Errorf("-bandwidth %v -latency %v -per-host %d; fix: the bandwidth is above 0, the latency not negative, a host has 1 rank or more", o.bandwidth, o.latency, o.perHost)
	}
	for _, n := range o.ranks {
		if o.hosts > 0 && n%o.hosts != 0 {
			return fmt.Errorf("-ranks %d -hosts %d; fix: every host has the same number of ranks", n, o.hosts)
		}
	}
	return nil
}

func measure(ctx context.Context, o *options, out, log io.Writer) error {
	dir, err := os.MkdirTemp("", "trainctl-scale-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	r := &runner{dir: dir}
	if r.trainctl, _, err = bench.Build(ctx, dir); err != nil {
		return err
	}
	all := report{Date: time.Now().UTC().Format(time.RFC3339), Machine: bench.MachineName()}
	all.Load = append(all.Load, load())
	fmt.Fprintf(out, "%s, %s, load %s\n\n", all.Machine, all.Date, all.Load[0])
	measured, err := o.runs(ctx, r, o.jobs(), log)
	if err != nil {
		return err
	}
	all.Jobs = measured[:len(o.ranks)]
	if err := all.printJobs(out); err != nil {
		return err
	}
	if o.predict {
		if err := o.predictions(ctx, &all, measured[len(o.ranks):]); err != nil {
			return err
		}
		if err := all.printPredictions(out); err != nil {
			return err
		}
	}
	all.Load = append(all.Load, load())
	fmt.Fprintf(out, "\nload at the end, these jobs included: %s\n", all.Load[1])
	return bench.Save(o.json, all)
}

// jobs are those to measure, followed by those from which predictions are derived. They run in the same
// rounds, so that other work on the machine does not hit one kind alone.
func (o *options) jobs() (all []job) {
	for _, n := range o.ranks {
		all = append(all, job{Ranks: n, Hosts: o.hosts, Batch: o.batch, Isolation: o.isolation})
	}
	if o.predict {
		all = append(append(all, job{Ranks: 1, Batch: o.batch, Isolation: o.isolation}), o.references(cgroup.Cores())...)
	}
	return all
}

// load returns how many processes ran or waited for a core, over the last 1, 5 and 15 minutes.
func load() string {
	text, err := os.ReadFile("/proc/loadavg")
	words := strings.Fields(string(text))
	if err != nil || len(words) < 3 {
		return "unknown"
	}
	return strings.Join(words[:3], " ")
}

// runs measures jobs in turn, several rounds, and keeps the fastest of each: other work on the
// machine only adds.
func (o *options) runs(ctx context.Context, r *runner, jobs []job, log io.Writer) ([]measured, error) {
	best := make([]measured, len(jobs))
	for round := range o.rounds {
		for i, j := range jobs {
			fmt.Fprintf(log, "%d ranks, round %d of %d\n", j.Ranks, round+1, o.rounds)
			m, err := r.run(ctx, j)
			if err != nil {
				return nil, fmt.Errorf("%d ranks: %w", j.Ranks, err)
			}
			if round == 0 {
				best[i] = m
			} else {
				best[i].improve(m)
			}
		}
	}
	return best, nil
}

// improve keeps the shorter times of two runs of a job.
func (m *measured) improve(o measured) {
	if o.FirstStepS < m.FirstStepS {
		m.FirstStepS, m.PhaseS = o.FirstStepS, o.PhaseS
	}
	m.StartCPUS, m.StepMS, m.CommMS = min(m.StartCPUS, o.StartCPUS), min(m.StepMS, o.StepMS), min(m.CommMS, o.CommMS)
	m.StepCPUMS = min(m.StepCPUMS, o.StepCPUMS)
}
