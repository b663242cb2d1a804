package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/trainctl/trainctl/bench/internal/selfrank"
	"github.com/trainctl/trainctl/core/bench"
	"github.com/trainctl/trainctl/core/tensor"
)

type options struct {
	python, json string
	sizes        sizes
	rounds       int
	budget       time.Duration
	only         string
}

func main() { selfrank.Main("allreduce", run) }

func run(ctx context.Context, args []string) error {
	o := options{sizes: sizes{1 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 25 << 20, 64 << 20}}
	flags := flag.NewFlagSet("allreduce", flag.ExitOnError)
	flags.StringVar(&o.python, "python", "python3", "the Python that has torch")
	flags.Var(&o.sizes, "sizes", "comma-separated sizes of the buffers in bytes")
	flags.IntVar(&o.rounds, "rounds", 3, "number of rounds")
	flags.DurationVar(&o.budget, "budget", 500*time.Millisecond, "time for each size in a round")
	flags.StringVar(&o.only, "only", "", "measure only one place: host or namespaces")
	flags.StringVar(&o.json, "json", "", "write every result to this `file`")
	if err := flags.Parse(args); err != nil {
		return err
	}
	return measure(ctx, &o, os.Stdout, os.Stderr)
}

// measure goes through the places and prints each as soon as it is done.
func measure(ctx context.Context, o *options, out, log io.Writer) error {
	p, err := selfrank.Program()
	if err != nil {
		return err
	}
	r := report{Date: time.Now().UTC().Format(time.RFC3339), Machine: bench.MachineName()}
	if p.Peer, err = gloo(ctx, o.python); err != nil {
		r.NoGloo = err.Error()
	}
	r.head(out)
	for _, at := range places {
		if o.only != "" && o.only != at.Name {
			continue
		}
		m, err := o.at(ctx, p, at, log)
		if err != nil {
			return fmt.Errorf("%s: %w", at.Name, err)
		}
		m.print(out)
		r.Places = append(r.Places, m)
	}
	return bench.Save(o.json, r)
}

// gloo is the command line of its rank, or why there is none.
func gloo(ctx context.Context, python string) ([]string, error) {
	text, err := exec.CommandContext(ctx, python, "-c", "import torch.distributed as d; assert d.is_gloo_available()").CombinedOutput()
	if err != nil {
		lines := strings.Split(strings.TrimSpace(string(text)), "\n")
		return nil, fmt.Errorf("%s has no torch with gloo (%s); -python names another", python, strings.TrimSpace(lines[len(lines)-1]+" "+err.Error()))
	}
	root, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return nil, fmt.Errorf("gloo.py not found: %w; run this inside trainctl's repository", err)
	}
	return []string{python, filepath.Join(strings.TrimSpace(string(root)), "bench", "allreduce", "gloo.py")}, nil
}

// at measures all rounds in one place.
func (o *options) at(ctx context.Context, p bench.Program, at place, log io.Writer) (measured, error) {
	m := measured{place: at}
	for i := range o.rounds {
		fmt.Fprintf(log, "%s, round %d of %d\n", at.Title, i+1, o.rounds)
		round := round{}
		s := bench.Spec{Backend: "tcp", World: max(2, at.Hosts), Hosts: at.Hosts, Sizes: o.sizes, DType: tensor.F32,
			Budget: o.budget, Rest: bench.DefaultRest, Timeout: bench.DefaultTimeout}
		err := bench.AllReduce(ctx, p, s, func(r bench.Result) error { round = append(round, r); return nil })
		switch {
		case errors.Is(err, bench.ErrNoHosts):
			m.Skipped = err.Error()
			return m, nil
		case err != nil:
			return m, err
		}
		m.Rounds = append(m.Rounds, round)
	}
	return m, nil
}
