package outline

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/trainctl/trainctl/core/base/usererr"
	"github.com/trainctl/trainctl/core/engine/optim"
	"github.com/trainctl/trainctl/core/tensor"
	"github.com/trainctl/trainctl/core/train/data"
)

// RunConfig is the table [run].
type RunConfig struct {
	Name              string        `toml:"name"`                                            // names the run directory; default: the file's name
	Seed              uint64        `toml:"seed"`                                            // of initialisation, order, dropout and augmentation
	Dir               string        `toml:"dir"`                                             // runs go to <dir>/<name>/<n>
	Device            string        `toml:"device" words:"auto,cpu,cuda"`                    // "auto", "cpu" or "cuda"
	AllowSharedDevice bool          `toml:"allow_shared_device"`                             // let several ranks compute on one GPU
	DeviceTimeout     time.Duration `toml:"device_timeout"`                                  // how long a GPU may take for what its rank waits for
	Deterministic     bool          `toml:"deterministic"`                                   // refuse backends that do not promise bitwise repeatability
	Fuse              bool          `toml:"fuse"`                                            // let the plan fuse ops
	TF32              bool          `toml:"tf32"`                                            // let GPUs make float32 products of 11-bit factors
	DType             string        `toml:"dtype" words:"f32,f64,float32,float64,fp32,fp64"` // "f32", or "f64" for reference curves
}

// DefaultRun runs deterministically in float32 on whatever device there is. A GPU gets
// less time than a collective, so that a rank whose GPU hangs reports it before its
// peers time out.
func DefaultRun() RunConfig {
	return RunConfig{Seed: 42, Dir: "runs", Device: "auto", DeviceTimeout: 2 * time.Minute, Deterministic: true, Fuse: true, DType: "f32"}
}

// Problems checks the table by itself.
func (c RunConfig) Problems() usererr.List {
	var l usererr.List
	switch c.Device {
	case "auto", "cpu", "cuda":
	default:
		help := `use "auto", "cpu" or "cuda"`
		if strings.HasPrefix(c.Device, "cuda:") {
			help = `use "cuda" and select GPUs with CUDA_VISIBLE_DEVICES; each local rank uses the GPU of its index`
		}
		l.Addf("device", help, "unknown device %q", c.Device)
	}
	if c.DeviceTimeout <= 0 {
		l.Addf("device_timeout", `waits must be bounded: set a duration such as "2m"`, "%v is not a positive duration", c.DeviceTimeout)
	}
	if d, err := tensor.ParseDType(c.DType); err != nil || d != tensor.F32 && d != tensor.F64 {
		l.Addf("dtype", `use "f32" or "f64"; half types are chosen by [precision]`, "%q is not a type to compute in", c.DType)
	}
	return l
}

// TrainConfig is the table [train].
type TrainConfig struct {
	Epochs          int       `toml:"epochs"`                        // passes over the training data; 0: as many as max_steps needs, the default when that alone is given
	MaxSteps        int       `toml:"max_steps"`                     // end the run after this many steps (evaluation still follows); 0: no limit
	PerRankBatch    int       `toml:"per_rank_batch"`                // samples per rank and micro-step; with global_batch at most
	GlobalBatch     int       `toml:"global_batch"`                  // samples over all ranks and micro-steps of one optimizer step
	AccumulateSteps int       `toml:"accumulate_steps"`              // micro-steps per optimizer step; only the last one communicates
	AccumulateMean  bool      `toml:"accumulate_mean"`               // weight micro-steps so that the result equals one big batch; false sums as DDP's no_sync does
	MaxNorm         float64   `toml:"max_norm"`                      // clip the total gradient norm after the reduce; 0: off
	EvalEvery       int       `toml:"eval_every"`                    // epochs between evaluations; 0: never
	EvalBatch       int       `toml:"eval_batch"`                    // samples per rank and evaluation step; 0: as in training
	LogFreq         int       `toml:"log_freq"`                      // steps between progress lines where there is no terminal
	Recompute       string    `toml:"recompute" words:"none,blocks"` // "blocks": backward runs blocks of layers again instead of keeping what they compute
	MaxSkips        int       `toml:"max_skips"`                     // end the run after this many steps in a row whose loss or gradients are not finite; 0: never
	EarlyStop       EarlyStop `toml:"early_stop"`
}

// EarlyStop is the table [train.early_stop].
type EarlyStop struct {
	Metric   string  `toml:"metric" words:",eval.loss,eval.accuracy,eval.perplexity,eval.bits_per_byte"` // what has to improve; empty: no early stopping
	Patience int     `toml:"patience"`                                                                   // evaluations in a row without improvement that end the run
	MinDelta float64 `toml:"min_delta"`                                                                  // a smaller change is no improvement
}

// problems checks the table, in a run with evaluations every so many epochs.
func (c EarlyStop) problems(l *usererr.List, evalEvery int) {
	if c.Metric != "" && !slices.Contains(optim.Metrics, c.Metric) {
		l.Addf("early_stop.metric", "use one of "+strings.Join(optim.Metrics, ", "), "unknown metric %q", c.Metric)
	}
	if c.Metric != "" && evalEvery == 0 {
		l.Addf("early_stop.metric", "set eval_every to 1, or remove it", "%s needs evaluations, and eval_every is 0", c.Metric)
	}
	if c.Patience < 1 {
		l.Addf("early_stop.patience", "3 is the default", "%d evaluations cannot end a run", c.Patience)
	}
	if !(c.MinDelta >= 0) || math.IsInf(c.MinDelta, 1) {
		l.Addf("early_stop.min_delta", "0 is the default", "%v is not a finite number ≥ 0", c.MinDelta)
	}
}

// DefaultTrain is one epoch with an evaluation at its end.
func DefaultTrain() TrainConfig {
	return TrainConfig{Epochs: 1, AccumulateSteps: 1, AccumulateMean: true, EvalEvery: 1, LogFreq: 50, Recompute: "none", MaxSkips: 100, EarlyStop: EarlyStop{Patience: 3}}
}

// Problems checks the table by itself.
func (c TrainConfig) Problems() usererr.List {
	var l usererr.List
	atMost := func(key string, v int) {
		if v > math.MaxInt32 {
			l.Addf(key, fmt.Sprintf("at most %d", math.MaxInt32), "%d is too large", v)
		}
	}
	positive := func(key string, v int) {
		if v < 1 {
			l.Addf(key, "at least 1", "%d is too small", v)
		}
		atMost(key, v)
	}
	natural := func(key string, v int) {
		if v < 0 {
			l.Addf(key, "0 or more", "%d is negative", v)
		}
		atMost(key, v)
	}
	natural("epochs", c.Epochs)
	if c.Epochs == 0 && c.MaxSteps == 0 {
		l.Addf("epochs", "give 1 or more, or max_steps", "with 0 epochs and no max_steps nothing is trained")
	}
	positive("accumulate_steps", c.AccumulateSteps)
	positive("log_freq", c.LogFreq)
	natural("max_steps", c.MaxSteps)
	natural("per_rank_batch", c.PerRankBatch)
	natural("global_batch", c.GlobalBatch)
	natural("eval_every", c.EvalEvery)
	natural("eval_batch", c.EvalBatch)
	natural("max_skips", c.MaxSkips)
	if c.EarlyStop != (EarlyStop{}) {
		c.EarlyStop.problems(&l, c.EvalEvery)
	}
	if c.Recompute != "" && c.Recompute != "none" && c.Recompute != "blocks" {
		l.Addf("recompute", `use "none" or "blocks"`, "unknown value %q", c.Recompute)
	}
	if !(c.MaxNorm >= 0) {
		l.Addf("max_norm", "0 turns clipping off", "%v is not a norm ≥ 0", c.MaxNorm)
	}
	switch {
	case c.PerRankBatch > 0 && c.GlobalBatch > 0:
		both := "per_rank_batch and global_batch are both set, so the world size decides the number of micro-steps"
		if c.AccumulateSteps > 1 {
			l.Addf("accumulate_steps", "remove it, or per_rank_batch", "%s", both)
		}
		if !c.AccumulateMean {
			l.Addf("accumulate_mean", "remove it, or per_rank_batch", "%s, and sums over them would change the gradient", both)
		}
	case c.PerRankBatch == 0 && c.GlobalBatch == 0:
		l.Addf("per_rank_batch", "set it, or global_batch", "no batch size is given")
	}
	return l
}

// Divide divides a step over the ranks of a world and their micro-steps. A global batch
// may leave some ranks one sample more than others. With per_rank_batch, too, there are as
// few micro-steps as that allows. It returns an error if a rank would get no sample.
func (c TrainConfig) Divide(world int) (data.Division, error) {
	micro := max(1, c.AccumulateSteps)
	if c.GlobalBatch == 0 {
		return data.Division{Step: c.PerRankBatch * world * micro, Micro: c.PerRankBatch, Accumulate: micro}, nil
	}
	if c.GlobalBatch < world {
		return data.Division{}, fmt.Errorf("train.global_batch = %d is less than one sample for each of %d ranks; fix: set it to %d or more, or use fewer ranks", c.GlobalBatch, world, world)
	}
	most := data.Share(c.GlobalBatch, world, 0)
	if c.PerRankBatch > 0 {
		micro = (most + c.PerRankBatch - 1) / c.PerRankBatch
	}
	batch := (most + micro - 1) / micro
	return data.Division{Step: c.GlobalBatch, Micro: batch, Accumulate: (most + batch - 1) / batch}, nil
}

// within is the table for ranks that have memory for micro-batches of at most n samples.
func (c TrainConfig) within(n int) TrainConfig {
	if c.GlobalBatch > 0 && (c.PerRankBatch == 0 || c.PerRankBatch > n) {
		c.PerRankBatch = n
	}
	return c
}

// EvalRows is the number of samples in an evaluation batch, for training batches of the
// given size.
func (c TrainConfig) EvalRows(training int) int {
	if c.EvalBatch > 0 {
		return c.EvalBatch
	}
	return training
}
