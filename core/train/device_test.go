package train

import (
	"context"
	"errors"
	"math"
	"testing"

	"github.com/trainctl/trainctl/core/engine/cuda"
	"github.com/trainctl/trainctl/core/engine/cuda/cudatest"
	"github.com/trainctl/trainctl/core/engine/kernel/convert"
	"github.com/trainctl/trainctl/core/engine/nn"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/optim"
	"github.com/trainctl/trainctl/core/engine/plan"
	"github.com/trainctl/trainctl/core/plugin/host"
	"github.com/trainctl/trainctl/core/report/event"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/tensor"
	"github.com/trainctl/trainctl/core/train/ddp"
	"github.com/trainctl/trainctl/core/train/outline"
	"github.com/trainctl/trainctl/plugins/amp"
)

// curve is what ranks report of a run.
type curve struct {
	loss   [][]float64 // by rank and step
	norm   []float64   // by step
	eval   float64
	params []string  // by rank
	model  []float64 // of rank 0, in state-dict order
	half   bool
}

// train runs all ranks to the end on the processor, or on fake GPUs.
func (c *curve) train(t *testing.T, gpu bool, world int, change func(d *Deps)) {
	t.Helper()
	c.loss, c.params = make([][]float64, world), make([]string, world)
	errs := onRanks(t, world, func(rank int, d *Deps) {
		change(d)
		d.Events.Add(event.Func(func(r event.Record) {
			switch e := r.Event.(type) {
			case *event.StepDone:
				c.loss[rank] = append(c.loss[rank], e.Loss)
				if rank == 0 {
					c.norm = append(c.norm, e.GradNorm)
				}
			case *event.EvalDone:
				if rank == 0 {
					c.eval = e.Loss
				}
			}
		}))
	}, func(ctx context.Context, d Deps) error {
		if gpu {
			d.Device = fakeGPU(t, d.World.LocalRank)
		}
		tr, err := Setup(ctx, d)
		if err != nil {
			return err
		}
		defer tr.Close()
		if err := tr.Run(ctx); err != nil {
			return err
		}
		if err := tr.device.Download(); err != nil {
			return err
		}
		c.params[d.World.Rank] = ddp.Hash(tr.model.Values)
		if d.World.Rank == 0 {
			for _, m := range tr.model.Values {
				c.half = c.half || m.DType.Half()
				if m.DType.Float() {
					c.model = append(c.model, wide(m)...)
				}
			}
		}
		return nil
	})
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	for r, p := range c.params {
		if p != c.params[0] {
			t.Errorf("rank %d ends with other parameters than rank 0", r)
		}
	}
}

// Ranks whose weights, gradients and optimizer live on a device follow the curves
// of those that compute in the host's memory, whatever has to be brought back
// and forth. The fake GPU does everything as late as CUDA may, and then at once.
func TestResidentRanksFollowTheProcessor(t *testing.T) {
	cudatest.Libraries(t, 3)
	two, three := 2, 3
	norms := func(s *outline.Settings) {
		s.Model = nn.Config{Layers: []nn.LayerConfig{
			{Type: "conv2d", Args: op.Args{"out_channels": two, "kernel_size": op.Pair{3, 3}}}, {Type: "batchnorm2d"}, {Type: "relu"}, {Type: "flatten"}, {Type: "linear", Args: op.Args{"out_features": three}},
		}}
		s.Train.MaxSteps = 3
	}
	half := func(d *Deps, options sdk.Options) {
		d.Precision, d.Settings.PrecisionOpts = host.InProcessPrecision(amp.New()), options
	}
	for _, c := range []struct {
		name   string
		world  int
		change func(s *outline.Settings, d *Deps)
	}{
		{"momentum", 2, func(s *outline.Settings, _ *Deps) {}},
		{"alone, clipped", 1, func(s *outline.Settings, _ *Deps) { s.Train.MaxNorm = 0.1 }},
		{"nesterov, decay, a bucket for each", 2, func(s *outline.Settings, _ *Deps) {
			s.Optimizer.Nesterov, s.Optimizer.WeightDecay, s.DDP.FirstBucketMB, s.DDP.BucketCapMB = true, 0.1, 1e-6, 1e-6
		}},
		{"adam", 2, func(s *outline.Settings, _ *Deps) { s.Optimizer = optim.DefaultFor("adam") }},
		{"adamw, amsgrad", 2, func(s *outline.Settings, _ *Deps) {
			s.Optimizer = optim.DefaultFor("adamw")
			s.Optimizer.AMSGrad = true
		}},
		{"lars", 2, func(s *outline.Settings, _ *Deps) { s.Optimizer = optim.DefaultFor("lars") }},
		{"moving averages of half weights", 2, func(s *outline.Settings, d *Deps) {
			s.Optimizer.EMADecay = 0.5
			half(d, sdk.Options{"level": "O2"})
		}},
		{"accumulation", 2, func(s *outline.Settings, _ *Deps) { s.Train.AccumulateSteps = 2 }},
		{"without overlap, compressed", 2, func(s *outline.Settings, _ *Deps) { s.DDP.Overlap, s.DDP.Compress = false, "bf16" }},
		{"uneven", 3, func(s *outline.Settings, _ *Deps) {
			s.DDP.Uneven, s.Sampler.Pad, s.Train.AccumulateSteps = ddp.UnevenJoin, "none", 2
			s.DatasetOptions["train_samples"] = int64(25)
		}},
		{"batch norms", 2, func(s *outline.Settings, _ *Deps) { norms(s) }},
		{"batch norms together", 2, func(s *outline.Settings, _ *Deps) { norms(s); s.DDP.SyncBatchNorm = true }},
		{"master weights, a dynamic scale", 2, func(_ *outline.Settings, d *Deps) {
			half(d, sdk.Options{"level": "O2", "init_scale": float64(1 << 23), "growth_interval": int64(2)})
		}},
		{"nothing but half", 2, func(_ *outline.Settings, d *Deps) { half(d, sdk.Options{"level": "O3"}) }},
		{"averages of weights", 2, func(s *outline.Settings, _ *Deps) { norms(s); s.DDP.SyncEvery, s.DDP.Outer = 2, ddp.OuterNesterov }},
		{"double", 1, func(s *outline.Settings, _ *Deps) { s.Run.DType = "f64" }},
		{"factors", 2, func(s *outline.Settings, _ *Deps) { s.DDP.Compress, s.DDP.PowerSGDStart = "powersgd", 2 }},
		{"layers left out", 2, func(s *outline.Settings, _ *Deps) { dropping(s); s.Train.AccumulateSteps = 2 }},
		{"caps that are measured", 2, func(s *outline.Settings, _ *Deps) { s.DDP.BucketCapMB = ddp.AutoCap }},
	} {
		for _, eager := range []string{"", "1"} {
			t.Run(c.name+map[string]string{"": "", "1": ", at once"}[eager], func(t *testing.T) {
				t.Setenv("CUDA_FAKE_EAGER", eager)
				var cpu, gpu curve
				change := func(d *Deps) { c.change(&d.Settings, d) }
				cpu.train(t, false, c.world, change)
				gpu.train(t, true, c.world, change)
				within := 1e-5
				if gpu.half {
					within = 1e-2 // half numbers keep three digits
				}
				gpu.follows(t, &cpu, within)
			})
		}
	}
}

// fakeGPU is a device until the test ends.
func fakeGPU(t testing.TB, ordinal int) plan.Device {
	dev, err := cuda.Open(ordinal, "")
	if err != nil {
		t.Error(err)
		return nil
	}
	t.Cleanup(func() {
		if err := dev.Close(); err != nil {
			t.Error(err)
		}
	})
	return dev
}

// What is true of ranks on processors is true of ranks on devices: PyTorch's
// curves, uneven inputs, layers left out, buckets that are measured.
func TestResidentRanksAreRanks(t *testing.T) {
	cudatest.Libraries(t, 4)
	was := device
	defer func() { device = was }()
	device = fakeGPU
	for name, test := range map[string]func(*testing.T){
		"join": TestJoinIsTorchs, "stop": TestStopIsTheShortestInput, "uneven": TestUnevenInputsAreAnError,
		"unused": TestUnusedParametersAreTorchs, "frozen": TestFrozenParameters,
		"stopping": TestRanksStopTogether, "weights": TestWeightsStartAsRankZeros,
		"averages": func(t *testing.T) {
			evaluatedAverages(t, func(*outline.Settings) {})
			evaluatedAverages(t, func(s *outline.Settings) { s.DDP.SyncEvery = 3 })
		},
	} {
		t.Run(name, test)
	}
}

// Ranks on devices recover as others do: what a broken group left in the host's
// memory is nowhere on the device, and a step that is done again begins there
// where it began.
func TestResidentRanksRecover(t *testing.T) {
	cudatest.Libraries(t, 2)
	for name, change := range map[string]func(*Deps){
		"plain": func(*Deps) {},
		"accumulated, dynamic scale": func(d *Deps) {
			d.Precision, d.Settings.PrecisionOpts = host.InProcessPrecision(amp.New()), sdk.Options{"dtype": "fp16"}
			d.Settings.Train.AccumulateSteps = 2
		},
	} {
		t.Run(name, func(t *testing.T) {
			on := func(d *Deps) {
				d.Device = fakeGPU(t, d.World.LocalRank)
				change(d)
			}
			want, calls, errs := trainThrough(t, 0, on)
			if err := errors.Join(errs...); err != nil {
				t.Fatal(err)
			}
			for at := 1; at <= calls[0]; at += 23 {
				for _, d := range []death{{0, at, false}, {1, at, true}} {
					got, _, errs := trainThrough(t, 1, on, d)
					if err := errors.Join(errs...); err != nil || got != want {
						t.Fatalf("%+v: ended with %v, undisturbed with %v: %v", d, got, want, err)
					}
				}
			}
		})
	}
}

func (c *curve) follows(t *testing.T, want *curve, within float64) {
	t.Helper()
	near := func(what string, got, want float64) {
		t.Helper()
		if !(math.Abs(got-want) <= within*(1+math.Abs(want))) && !(math.IsNaN(got) && math.IsNaN(want)) {
			t.Errorf("%s: %v, on the processor %v", what, got, want)
		}
	}
	for r := range want.loss {
		if len(c.loss[r]) != len(want.loss[r]) || len(want.loss[r]) == 0 {
			t.Fatalf("rank %d made %d steps, on the processor %d", r, len(c.loss[r]), len(want.loss[r]))
		}
		for i := range want.loss[r] {
			near("loss", c.loss[r][i], want.loss[r][i])
		}
	}
	for i := range want.norm {
		near("norm", c.norm[i], want.norm[i])
	}
	near("evaluation", c.eval, want.eval)
	for i := range want.model {
		near("model", c.model[i], want.model[i])
	}
}

func wide(x tensor.Tensor) []float64 {
	v := make([]float64, x.Shape.Elems())
	convert.Convert(tensor.F64, tensor.Bytes(v), x.DType, x.Data)
	return v
}
