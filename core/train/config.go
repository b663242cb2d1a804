package train

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/trainctl/trainctl/core/diag"
)

// RunConfig is the table [run].
type RunConfig struct {
	Name          string `toml:"name"`          // names the run directory; default: the file's name
	Seed          uint64 `toml:"seed"`          // of initialisation, order, dropout and augmentation
	Dir           string `toml:"dir"`           // runs go to <dir>/<name>/<n>
	Device        string `toml:"device"`        // "auto" or "cpu"
	Deterministic bool   `toml:"deterministic"` // refuse plugins that do not promise bitwise repeatability
	Fuse          bool   `toml:"fuse"`          // let the plan fuse ops
	DType         string `toml:"dtype"`         // "f32", or "f64" for reference curves
}

// Config is the table [train].
type Config struct {
	Epochs          int     `toml:"epochs"`           // passes over the training data
	MaxSteps        int     `toml:"max_steps"`        // end the run after this many steps (evaluation still follows); 0: no limit
	PerRankBatch    int     `toml:"per_rank_batch"`   // samples per rank and micro-step; this or global_batch
	GlobalBatch     int     `toml:"global_batch"`     // samples over all ranks and micro-steps of one optimizer step
	AccumulateSteps int     `toml:"accumulate_steps"` // micro-steps per optimizer step; only the last one communicates
	AccumulateMean  bool    `toml:"accumulate_mean"`  // weight micro-steps so that the result equals one big batch; false sums as DDP's no_sync does
	MaxNorm         float64 `toml:"max_norm"`         // clip the total gradient norm after the reduce; 0: off
	EvalEvery       int     `toml:"eval_every"`       // epochs between evaluations; 0: never
	EvalBatch       int     `toml:"eval_batch"`       // samples per rank and evaluation step; 0: as in training
	LogFreq         int     `toml:"log_freq"`         // steps between progress lines where there is no terminal
	MaxSkips        int     `toml:"max_skips"`        // end the run after this many steps in a row with non-finite gradients
}

// DefaultRun is a run on whatever device there is, seeded as PyTorch people
// do by habit.
func DefaultRun() RunConfig {
	return RunConfig{Seed: 42, Dir: "runs", Device: "auto", Deterministic: true, Fuse: true, DType: "f32"}
}

// Problems checks the table by itself.
func (c RunConfig) Problems() diag.List {
	var l diag.List
	if c.Name == "" || c.Name == "." || c.Name == ".." || strings.ContainsAny(c.Name, "/\\\x00") {
		l.Addf("name", `give a plain name, as "mnist-ddp"; run.dir says where it goes`, "%q cannot name a directory", c.Name)
	}
	if c.Dir == "" {
		l.Addf("dir", `"runs" is the default`, "no directory for runs is given")
	}
	oneOf(&l, "device", c.Device, "auto", "cpu")
	oneOf(&l, "dtype", c.DType, "f32", "f64")
	return l
}

// Default evaluates after every epoch. Batch and length have no default: they
// belong to the job.
func Default() Config {
	return Config{AccumulateSteps: 1, AccumulateMean: true, EvalEvery: 1, LogFreq: 50, MaxSkips: 100}
}

// Problems checks the table by itself.
func (c Config) Problems() diag.List {
	var l diag.List
	for _, n := range []struct {
		key  string
		v    int
		min  int
		help string
	}{
		{"epochs", c.Epochs, 0, "0 trains until max_steps"},
		{"max_steps", c.MaxSteps, 0, "0 means no limit"},
		{"per_rank_batch", c.PerRankBatch, 0, "give 1 or more"},
		{"global_batch", c.GlobalBatch, 0, "give 1 or more"},
		{"accumulate_steps", c.AccumulateSteps, 1, "1 means no accumulation"},
		{"eval_every", c.EvalEvery, 0, "0 never evaluates"},
		{"eval_batch", c.EvalBatch, 0, "0 takes the training batch"},
		{"log_freq", c.LogFreq, 1, "50 is the default"},
		{"max_skips", c.MaxSkips, 1, "100 is the default"},
	} {
		if n.v < n.min {
			l.Addf(n.key, n.help, "%d is too small", n.v)
		}
	}
	if !(c.MaxNorm >= 0) || math.IsInf(c.MaxNorm, 0) {
		l.Addf("max_norm", "0 turns clipping off", "%v is not a norm", c.MaxNorm)
	}
	return l
}

// Batch is the number of samples per rank and micro-step in a world of the
// given size. It fails when global_batch does not divide.
func (c Config) Batch(world int) (int, error) {
	if c.GlobalBatch == 0 {
		return c.PerRankBatch, nil
	}
	if parts := world * c.AccumulateSteps; c.GlobalBatch%parts != 0 {
		return 0, fmt.Errorf("train.global_batch = %d does not divide among %d ranks × %d micro-steps", c.GlobalBatch, world, c.AccumulateSteps)
	}
	return c.GlobalBatch / (world * c.AccumulateSteps), nil
}

func oneOf(l *diag.List, key, v string, known ...string) {
	if !slices.Contains(known, v) {
		l.Addf(key, "use "+strings.Join(quoted(known), " or "), "unknown value %q", v)
	}
}

func quoted(s []string) []string {
	out := make([]string, len(s))
	for i := range s {
		out[i] = strconv.Quote(s[i])
	}
	return out
}
