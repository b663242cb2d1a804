package train

import (
	"bytes"
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/afero"

	"github.com/trainctl/trainctl/core/base/usererr"
	"github.com/trainctl/trainctl/core/engine/nn"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/optim"
	"github.com/trainctl/trainctl/core/plugin/host"
	"github.com/trainctl/trainctl/core/report/event"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/tensor"
	"github.com/trainctl/trainctl/core/train/checkpoint"
	"github.com/trainctl/trainctl/core/train/ddp"
	"github.com/trainctl/trainctl/core/train/outline"
	"github.com/trainctl/trainctl/plugins/amp"
	"github.com/trainctl/trainctl/plugins/datasets/mnist"
)

// strided has every world-th sample of another data set from the first-th on: what the sampler gives
// a rank in order.
type strided struct {
	hashed
	first, world int64
}

func (s strided) Open(ctx context.Context, r sdk.DatasetRequest) (sdk.DatasetSpec, error) {
	spec, err := s.hashed.Open(ctx, r)
	spec.TrainSamples /= int(s.world)
	return spec, err
}

func (s strided) Fill(ctx context.Context, b *sdk.Batch) error {
	if b.Split == sdk.Train {
		b.Indices = slices.Clone(b.Indices)
		for i := range b.Indices {
			b.Indices[i] = s.first + s.world*b.Indices[i]
		}
	}
	return s.hashed.Fill(ctx, b)
}

// weightsOf trains in float64 on a data set, and returns the weights and buffers of rank 0; without
// ranks, those with which a run begins.
func weightsOf(t *testing.T, world int, data sdk.Dataset, change func(s *outline.Settings)) (out [][]float64) {
	t.Helper()
	errs := onRanks(t, max(1, world), func(_ int, d *Deps) {
		s := &d.Settings
		s.Run.DType, s.Dataset, s.DatasetOptions, s.Sampler.Shuffle = "f64", "hashed", nil, false
		s.Model = nn.Config{Layers: []nn.LayerConfig{{Type: "linear", Args: op.Args{"out_features": 6}}, {Type: "batchnorm1d"}, {Type: "relu"}, {Type: "linear", Args: op.Args{"out_features": 3}}}}
		change(s)
		d.Dataset = host.InProcessDataset(data)
	}, func(ctx context.Context, d Deps) error {
		tr, err := Setup(ctx, d)
		if err != nil {
			return err
		}
		defer tr.Close()
		if world > 0 {
			err = tr.Run(ctx)
		}
		if err != nil || d.World.Rank > 0 {
			return err
		}
		for _, v := range tr.model.Values {
			if v.DType.Float() {
				out = append(out, slices.Clone(v.F64()))
			}
		}
		return nil
	})
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	return out
}

// After a round the weights are the mean of those that each rank gets alone on its part of the data,
// and with an outer optimizer a step from where the round began; buffers are means.
func TestRoundsAverageWhatRanksGetAlone(t *testing.T) {
	t.Parallel()
	const world = 3
	data := hashed{Shape: tensor.Shape{5}, Classes: 3, Train: 60, Test: 6}
	common := func(s *outline.Settings) { s.Optimizer = optim.DefaultFor("adamw"); s.Optimizer.LR = 0.01 }
	begin := weightsOf(t, 0, data, common)
	var alone [world][][]float64
	for r := range alone {
		alone[r] = weightsOf(t, 1, strided{data, int64(r), world}, common)
	}
	for name, outer := range map[string]func(c *ddp.Config) float64{ // the factor of the change
		"plain":               func(*ddp.Config) float64 { return 1 },
		"nesterov":            func(c *ddp.Config) float64 { c.Outer = ddp.OuterNesterov; return 0.7 * 1.9 },
		"rate 1, no momentum": func(c *ddp.Config) float64 { c.Outer, c.OuterLR, c.OuterMomentum = ddp.OuterNesterov, 1, 0; return 1 },
	} {
		factor := 0.0
		got := weightsOf(t, world, data, func(s *outline.Settings) {
			common(s)
			s.DDP.SyncEvery = 100 // the end of the epoch comes first
			factor = outer(&s.DDP)
		})
		for i := range got {
			for k := range got[i] {
				want := 0.0
				for r := range alone {
					want += alone[r][i][k] / world
				}
				if i != 4 && i != 5 { // the running statistics
					want = begin[i][k] + factor*(want-begin[i][k])
				}
				if math.Abs(got[i][k]-want) > 1e-9*(1+math.Abs(want)) {
					t.Fatalf("%s: element %d of tensor %d is %v, want %v", name, k, i, got[i][k], want)
				}
			}
		}
	}
}

// Where each round has one step of SGD, averages of weights are those of gradients.
func TestRoundsOfOneStepAreSynchronous(t *testing.T) {
	t.Parallel()
	run := func(every int) outcomeOf {
		return outcomeOn(t, 2, func(_ int, d *Deps) {
			s := &d.Settings
			s.Run.DType, s.Train.PerRankBatch, s.Train.Epochs, s.DDP.SyncEvery = "f64", 15, 5, every
		})
	}
	got, want := run(8), run(1)
	got.Norms, want.Norms = nil, nil
	got.equals(t, &want, 1e-9)
}

// settings of rounds of three steps over epochs of eight.
func inRounds(s *outline.Settings) {
	s.Optimizer, s.DDP.SyncEvery, s.DDP.Outer, s.Train.Epochs = optim.DefaultFor("adam"), 3, ddp.OuterNesterov, 2
	s.DatasetOptions["train_samples"] = int64(90)
}

// A rank sends nothing within a round. Rounds end after so many steps and at the end of an epoch.
func TestRanksAreSilentInRounds(t *testing.T) {
	t.Parallel()
	calls, before := 0, 0
	var spoke []int // steps after which a call was made since the last
	errs := onRanks(t, 3, func(rank int, d *Deps) {
		inRounds(&d.Settings)
		d.Settings.Train.EvalEvery = 0
		if rank > 0 {
			return
		}
		d.Backend = tapped{d.Backend, func(*sdk.Collective) error { calls++; return nil }}
		d.Events.Add(event.Func(func(r event.Record) {
			switch e := r.Event.(type) {
			case *event.PhaseChanged:
				before = calls
			case *event.StepDone:
				if calls > before {
					spoke = append(spoke, e.Step)
				}
				before = calls
			}
		}))
	}, trainToTheEnd)
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	if want := []int{3, 6, 8, 11, 14, 16}; !slices.Equal(spoke, want) {
		t.Errorf("ranks exchanged something in steps %v, want %v", spoke, want)
	}
}

// A run that is resumed from a checkpoint, which is saved at the end of a round, ends with the bits of
// one that was not interrupted. Another number of ranks can resume it.
func TestRoundsAtAResume(t *testing.T) {
	t.Parallel()
	whole, part := t.TempDir(), t.TempDir()
	run := func(world int, dir, resume string, steps int) {
		save := saving(t, dir, checkpoint.Config{Every: "4 steps", Keep: 9}, inRounds)
		errs := onRanks(t, world, func(rank int, d *Deps) {
			save(rank, d)
			d.Settings.Train.MaxSteps, d.Resume = steps, resume
		}, trainAndClose)
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
	}
	run(3, whole, "", 0)
	run(3, part, "", 6)
	again := t.TempDir()
	run(3, again, part, 0)
	for _, file := range []string{checkpoint.ModelFile, checkpoint.OptimizerFile} {
		last := filepath.Join("step-16", file)
		if !bytes.Equal(must(os.ReadFile(filepath.Join(whole, last))), must(os.ReadFile(filepath.Join(again, last)))) {
			t.Errorf("resumed, the run ends with another %s than uninterrupted", last)
		}
	}
	run(2, t.TempDir(), part, 0)
	var saved []string
	for _, dir := range must(filepath.Glob(filepath.Join(whole, "step-*"))) {
		saved = append(saved, strings.TrimLeft(strings.TrimPrefix(filepath.Base(dir), "step-"), "0"))
	}
	if slices.Sort(saved); strings.Join(saved, " ") != "14 16 6 8" {
		t.Errorf("checkpoints after steps %v", saved)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// A request to stop waits for the end of the round.
func TestRoundsEndBeforeAStop(t *testing.T) {
	t.Parallel()
	errs := onRanks(t, 2, func(_ int, d *Deps) {
		inRounds(&d.Settings)
		d.Settings.DDP.SyncEvery = 5
	}, func(ctx context.Context, d Deps) error {
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		d.Events.Add(event.Func(func(r event.Record) {
			if e, ok := r.Event.(*event.StepDone); ok && e.Step == 2 && d.World.Rank == 1 {
				stop()
			}
		}))
		return trainToTheEnd(ctx, d)
	})
	for _, err := range errs {
		if p := (*Preempted)(nil); !errors.As(err, &p) || p.Step != 5 {
			t.Errorf("%v", err)
		}
	}
}

// Half weights and dynamic loss scales are refused, since ranks would not agree on them.
func TestRoundsRefusePrecisions(t *testing.T) {
	for _, options := range []sdk.Options{{"dtype": "fp16"}, {"level": "O2", "dtype": "bf16"}} {
		errs := onRanks(t, 2, func(_ int, d *Deps) {
			d.Settings.DDP.SyncEvery = 2
			d.Precision, d.Settings.PrecisionOpts = host.InProcessPrecision(amp.New()), options
		}, trainToTheEnd)
		if l := usererr.Problems(errs[0]); l == nil || l[0].Key != "ddp.sync_every" {
			t.Errorf("%v: %v", options, errs[0])
		}
	}
}

// On MNIST, averages of weights every 8 steps reach the accuracy of averages of gradients within 0.2
// points.
func TestAveragesOfWeightsConverge(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("trains twice on real data")
	}
	root := must(filepath.Abs("../../../shared/mnist"))
	if _, err := os.Stat(filepath.Join(root, "train-images-idx3-ubyte.gz")); err != nil {
		t.Skipf("real MNIST is not in ../shared/mnist: %v", err)
	}
	accuracy := func(every int) float64 {
		got := outcomeOn(t, 2, func(_ int, d *Deps) {
			s := &d.Settings
			data := mnist.New(afero.NewOsFs())
			options, problems := sdk.CheckOptions("", data.Info().Options, map[string]any{"root": root, "download": false})
			if problems != nil {
				t.Error(problems.Err())
			}
			d.Dataset, s.Dataset, s.DatasetOptions = host.InProcessDataset(data), "mnist", options
			s.Model, s.Train.PerRankBatch, s.Train.MaxSteps = nn.Config{Name: "mlp"}, 64, 120
			s.Optimizer.LR, s.Schedule.Name, s.DDP.SyncEvery = 0.1, "cosine", every
		})
		return got.Evals[0][2]
	}
	if every, each := accuracy(8), accuracy(1); each < 0.9 || math.Abs(every-each) > 0.002 {
		t.Errorf("averages every 8 steps reach an accuracy of %v, averages of gradients in each step %v", every, each)
	}
}
