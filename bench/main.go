package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	corebench "github.com/trainctl/trainctl/core/bench"
)

type options struct {
	python, match, mnist, json string
	pairs                      int
	seconds                    float64
	compile, list              bool
	models                     []string
	dtype                      string
	instructions               instructions
}

func main() {
	var o options
	flag.StringVar(&o.python, "python", "python3", "the Python that has torch and numpy")
	flag.StringVar(&o.match, "match", "", "measure the cases whose names contain this `text`")
	flag.StringVar(&o.mnist, "mnist", "", "train on the MNIST files in this `folder`; default: generated images")
	flag.StringVar(&o.json, "json", "", "write all runs to this `file`")
	flag.IntVar(&o.pairs, "pairs", 3, "runs of each side")
	flag.Float64Var(&o.seconds, "seconds", 4, "how long PyTorch trains in a run, approximately")
	flag.BoolVar(&o.compile, "compile", false, "measure torch.compile too")
	flag.BoolVar(&o.list, "list", false, "print the names of the cases")
	flag.Func("model", "measure the network of this configuration `file` instead of the cases; repeatable", func(file string) error {
		o.models = append(o.models, file)
		return nil
	})
	flag.StringVar(&o.dtype, "dtype", "fp32", "`type` of the networks of -model: fp32 or bf16 (mixed precision)")
	flag.TextVar(&o.instructions, "cpu", instructions(""), "limit both sides to these `instructions`: avx2; default: the best that the processor has")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := measure(ctx, &o, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func measure(ctx context.Context, o *options, w io.Writer) error {
	chosen := choose(o.match)
	if len(o.models) > 0 {
		if o.dtype != "fp32" && o.dtype != "bf16" {
			return fmt.Errorf("-dtype is %q: give fp32 or bf16", o.dtype)
		}
		chosen = given(o.models, o.dtype)
	}
	if len(chosen) == 0 {
		return fmt.Errorf("no case has %q in its name; -list prints them", o.match)
	}
	if o.list {
		for _, c := range chosen {
			fmt.Fprintln(w, c)
		}
		return nil
	}
	dir, err := os.MkdirTemp("", "trainctl-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	b := &bench{options: o, dir: dir, log: os.Stderr}
	if err := b.prepare(ctx); err != nil {
		return err
	}
	r := report{Date: time.Now().UTC().Format(time.RFC3339), Machine: corebench.MachineName(), Instructions: o.instructions, Torch: b.torch, NoTorch: b.noTorch}
	for _, c := range chosen {
		m, err := b.run(ctx, c)
		if err != nil {
			return fmt.Errorf("%v: %w", c, err)
		}
		r.Cases = append(r.Cases, m)
	}
	if err := r.print(w); err != nil {
		return err
	}
	return corebench.Save(o.json, r)
}

// bench is one session of measuring.
type bench struct {
	*options
	dir      string // for everything that the runs write
	trainctl string // the program
	script   string // torch_train.py
	torch    string // version, empty when there is none
	noTorch  string // why there is none
	log      io.Writer
}

// prepare builds trainctl and looks for torch.
func (b *bench) prepare(ctx context.Context) error {
	program, top, err := corebench.Build(ctx, b.dir)
	if err != nil {
		return err
	}
	b.trainctl, b.script = program, filepath.Join(top, "bench", "torch_train.py")
	if b.mnist != "" {
		if b.mnist, err = filepath.Abs(b.mnist); err != nil {
			return err
		}
	}
	b.findTorch(ctx)
	return nil
}

// run measures a case: all variants of all sides once, then all again. How many steps a network of unknown speed
// makes is found first.
func (b *bench) run(ctx context.Context, c *testCase) (measured, error) {
	if c.Speed == 0 {
		r, err := b.runTrainctl(ctx, c)
		if err != nil {
			return measured{}, err
		}
		c.Speed = r.SamplesPerSec / 2
	}
	m := measured{Case: *c}
	for range b.pairs {
		fmt.Fprintf(b.log, "%v: trainctl", c)
		r, err := b.runTrainctl(ctx, c)
		if err != nil {
			return m, err
		}
		m.Trainctl = append(m.Trainctl, r)
		fmt.Fprintf(b.log, " %.0f/s", r.SamplesPerSec)
		for _, v := range b.variants(c) {
			r, err := b.runTorch(ctx, c, v)
			if ctx.Err() != nil {
				return m, err
			}
			if err != nil { // the rest is worth having
				fmt.Fprintf(b.log, ", torch %s failed: %v", v, err)
				continue
			}
			m.add(v, r)
			fmt.Fprintf(b.log, ", torch %s %.0f/s", v, r.SamplesPerSec)
		}
		fmt.Fprintln(b.log)
	}
	return m, nil
}
