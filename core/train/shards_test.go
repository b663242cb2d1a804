package train

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/trainctl/trainctl/core/base/usererr"
	"github.com/trainctl/trainctl/core/engine/nn"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/optim"
	"github.com/trainctl/trainctl/core/plugin/host"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/tensor"
	"github.com/trainctl/trainctl/core/train/checkpoint"
	"github.com/trainctl/trainctl/core/train/ddp"
	"github.com/trainctl/trainctl/core/train/outline"
	"github.com/trainctl/trainctl/plugins/amp"
)

// Ranks that divide the optimizer's state train the parameters that they train without, to the
// last bit, with every optimizer, clipping and mixed precision, on any number of ranks.
func TestShardedOptimizerKeepsBits(t *testing.T) {
	amped := func(options sdk.Options) func(d *Deps) {
		return func(d *Deps) { d.Precision, d.Settings.PrecisionOpts = host.InProcessPrecision(amp.New()), options }
	}
	cases := map[string]func(d *Deps){
		"a dynamic scale":  amped(sdk.Options{"dtype": "fp16"}),
		"master weights":   amped(sdk.Options{"level": "O2", "init_scale": float64(1 << 23), "growth_interval": int64(2)}),
		"nothing but half": amped(sdk.Options{"level": "O3"}),
		"layers left out":  func(d *Deps) { dropping(&d.Settings); d.Settings.Train.AccumulateSteps = 2 },
		"float64":          func(d *Deps) { d.Settings.Run.DType = "f64" },
		"more ranks than parameters": func(d *Deps) {
			d.Settings.Model = nn.Config{Layers: []nn.LayerConfig{{Type: "flatten"}, {Type: "linear", Args: op.Args{"out_features": 3}}}}
		},
	}
	cases["one bucket for each parameter"] = func(d *Deps) { d.Settings.DDP.BucketCapMB, d.Settings.DDP.FirstBucketMB = 0, 0 }
	cases["caps that are measured"] = func(d *Deps) { d.Settings.DDP.BucketCapMB = ddp.AutoCap }
	cases["compressed"] = func(d *Deps) { d.Settings.DDP.Compress, d.Settings.DDP.PredivideFactor = "bf16", 2 }
	cases["factors"] = func(d *Deps) { d.Settings.DDP.Compress, d.Settings.DDP.PowerSGDStart = "powersgd", 1 }
	cases["frozen"] = func(d *Deps) { d.Settings.Model.Freeze = []string{"fc1"} }
	cases["groups"] = func(d *Deps) {
		scale, decay := 3.0, 0.2
		d.Settings.Optimizer = optim.DefaultFor("adamw")
		d.Settings.Optimizer.Groups = []optim.Group{{Match: []string{"fc1.bias"}, Freeze: true}, {Match: []string{"fc1"}, LRScale: &scale}, {Match: []string{"*.bias"}, WeightDecay: &decay}}
	}
	for _, name := range optim.Names() {
		for how, norm := range map[string]float64{"": 0, ", clipped": 0.1} {
			cases[name+how] = func(d *Deps) {
				d.Settings.Optimizer, d.Settings.Train.MaxNorm = optim.DefaultFor(name), norm
				d.Settings.Optimizer.LR, d.Settings.Optimizer.Decay = 0.01, optim.DecayMatrices
			}
		}
	}
	for name, change := range cases {
		for world := 1; world <= 4; world++ {
			t.Run(fmt.Sprintf("%s/%d", name, world), func(t *testing.T) {
				var whole, sharded curve
				whole.train(t, false, world, change)
				sharded.train(t, false, world, func(d *Deps) { change(d); d.Settings.DDP.Shard = ddp.ShardOptimizer })
				sharded.equals(t, &whole)
			})
		}
	}
}

// Checkpoints of ranks that divide the optimizer's state are those of ranks that do not, and are
// continued by any number of either.
func TestShardedCheckpointsAreWhole(t *testing.T) {
	const world, step = 3, 2
	sharded := func(s *outline.Settings) { s.DDP.Shard = ddp.ShardOptimizer }
	with := func(change func(s *outline.Settings)) func(s *outline.Settings) {
		return func(s *outline.Settings) {
			s.Optimizer, s.Train.MaxSteps, s.Train.Epochs = optim.DefaultFor("adamw"), 2*step, 4
			if change != nil {
				change(s)
			}
		}
	}
	half := func(setup func(rank int, d *Deps)) func(rank int, d *Deps) {
		return func(rank int, d *Deps) {
			d.Precision, d.Settings.PrecisionOpts = host.InProcessPrecision(amp.New()), sdk.Options{"level": "O2", "dtype": "bf16"}
			setup(rank, d)
		}
	}
	state := func(dir string, at int) []byte {
		snap, _, err := checkpoint.Load(t.Context(), checkpoint.OsFS(), filepath.Join(dir, fmt.Sprint("step-", at)))
		if err != nil {
			t.Fatal(err)
		}
		var all []byte
		for _, e := range slices.Concat(snap.Model, snap.Optimizer) {
			all = append(append(all, e.Name...), e.Data...)
		}
		return all
	}
	train := func(ranks int, dir, resume string, change func(s *outline.Settings)) {
		t.Helper()
		setup := saving(t, dir, checkpoint.Config{Every: "2 steps"}, with(change))
		errs := onRanks(t, ranks, half(func(rank int, d *Deps) { setup(rank, d); d.Resume = resume }), trainAndClose)
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
	}
	whole, parts := t.TempDir(), t.TempDir()
	train(world, whole, "", nil)
	train(world, parts, "", sharded)
	for _, at := range []int{step, 2 * step} {
		if !slices.Equal(state(whole, at), state(parts, at)) {
			t.Errorf("step %d: another model or state", at)
		}
	}
	for _, ranks := range []int{1, 2, 3, 4} {
		a, b := t.TempDir(), t.TempDir()
		train(ranks, a, filepath.Join(whole, "step-2"), nil)
		train(ranks, b, filepath.Join(parts, "step-2"), sharded)
		if !slices.Equal(state(a, 2*step), state(b, 2*step)) {
			t.Errorf("continued on %d ranks: another model or state", ranks)
		}
		if ranks == world && !slices.Equal(state(b, 2*step), state(whole, 2*step)) {
			t.Error("continued: another model or state than that of an undisturbed run")
		}
	}
}

// Ranks that divide the optimizer's state reduce gradients by reduce-scatter during backward and gather
// weights after their update, a bucket at a time. Where an update reads whole gradients, or the
// backend offers no reduce-scatter, gradients are all-reduced.
func TestShardedRanksScatterAndGather(t *testing.T) {
	for name, c := range map[string]struct {
		change   func(d *Deps)
		scatters bool
	}{
		"plain":                  {func(*Deps) {}, true},
		"a dynamic scale":        {func(d *Deps) { d.Precision = host.InProcessPrecision(amp.New()) }, true},
		"clipping":               {func(d *Deps) { d.Settings.Train.MaxNorm = 1 }, false},
		"norms of parameters":    {func(d *Deps) { d.Settings.Optimizer = optim.DefaultFor("lars") }, false},
		"a backend without":      {func(d *Deps) { d.Backend = narrowed(d.Backend, ddp.Default().Calls([]tensor.DType{tensor.F32})) }, false},
		"factors in their place": {func(d *Deps) { d.Settings.DDP.Compress = "powersgd" }, false},
	} {
		t.Run(name, func(t *testing.T) {
			const buckets, steps = 4, 3
			var counters [2]counter
			errs := onRanks(t, 2, func(rank int, d *Deps) {
				d.Settings.DDP.Shard, d.Settings.DDP.BucketCapMB, d.Settings.DDP.FirstBucketMB = ddp.ShardOptimizer, 0, 0
				d.Settings.Train.MaxSteps, d.Settings.Train.EvalEvery = steps, 0
				c.change(d)
				d.Backend = counters[rank].count(d.Backend)
			}, trainToTheEnd)
			if err := errors.Join(errs...); err != nil {
				t.Fatal(err)
			}
			want := 0
			if c.scatters {
				want = buckets * steps
			}
			for r := range counters {
				if got := counters[r][sdk.OpReduceScatter].Load(); got != int64(want) {
					t.Errorf("rank %d: %d reduce-scatters, want %d", r, got, want)
				}
				if got := counters[r][sdk.OpAllGather].Load(); got != buckets*steps {
					t.Errorf("rank %d: %d all-gathers, want %d", r, got, buckets*steps)
				}
			}
		})
	}
}

// LARS needs norms of whole parameters, and no rank has whole master weights.
func TestShardedLARSOfHalfParametersIsRefused(t *testing.T) {
	errs := onRanks(t, 2, func(_ int, d *Deps) {
		d.Settings.DDP.Shard, d.Settings.Optimizer = ddp.ShardOptimizer, optim.DefaultFor("lars")
		d.Precision, d.Settings.PrecisionOpts = host.InProcessPrecision(amp.New()), sdk.Options{"level": "O2"}
	}, trainToTheEnd)
	if l := usererr.Problems(errs[0]); len(l) != 1 || l[0].Key != "ddp.shard" {
		t.Errorf("%v", errs[0])
	}
}
