package train

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/trainctl/trainctl/core/cpu"
	"github.com/trainctl/trainctl/core/data"
	"github.com/trainctl/trainctl/core/ddp"
	"github.com/trainctl/trainctl/core/event"
	"github.com/trainctl/trainctl/core/host"
	"github.com/trainctl/trainctl/core/nn"
	"github.com/trainctl/trainctl/core/optim"
	"github.com/trainctl/trainctl/core/rank"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/tensor"
)

// counting is the backend of rank 0 of two whose partner always has the same
// numbers: halves add up to what was halved. It counts the operations.
type counting struct{ ops map[sdk.Op]int }

func (c *counting) Info() sdk.Info {
	return sdk.Info{Name: "counting", DTypes: []tensor.DType{tensor.F32, tensor.F64, tensor.U8}, Determinism: "bitwise"}
}
func (c *counting) Open(context.Context, sdk.Group, sdk.Options) error { return nil }
func (c *counting) Attach(context.Context, *sdk.Arena) error           { return nil }
func (c *counting) Listen(context.Context) ([]byte, error)             { return nil, nil }
func (c *counting) Connect(context.Context, [][]byte) error            { return nil }
func (c *counting) Close() error                                       { return nil }

func (c *counting) Do(_ context.Context, call *sdk.Collective) error {
	c.ops[call.Op]++
	switch {
	case call.Op != sdk.OpAllReduce || call.Reduce != sdk.Sum:
	case call.DType == tensor.F32:
		double(tensor.View[float32](call.Buf))
	case call.DType == tensor.F64:
		double(tensor.View[float64](call.Buf))
	}
	return nil
}

func double[T float32 | float64](x []T) {
	for i := range x {
		x[i] *= 2
	}
}

// stripes are images whose brightest row is their class.
type stripes struct{}

const stripeSamples = 4096

func (stripes) Info() sdk.Info { return sdk.Info{Name: "stripes"} }

func (stripes) Open(context.Context, sdk.DatasetRequest) (sdk.DatasetSpec, error) {
	return sdk.DatasetSpec{
		Source: "computed", Input: tensor.Spec{DType: tensor.F32, Shape: tensor.Shape{1, 28, 28}}, Target: tensor.Spec{DType: tensor.I32},
		Classes: 10, TrainSamples: stripeSamples, TestSamples: 0, Fingerprint: "stripes",
	}, nil
}

func (stripes) Fill(_ context.Context, b *sdk.Batch) error {
	x, y := tensor.View[float32](b.Input), tensor.View[int32](b.Target)
	clear(x)
	for i, index := range b.Indices {
		y[i] = int32(index % 10)
		row := x[i*784+int(y[i])*28:][:28]
		for k := range row {
			row[k] = 1 + float32(index%7)/10
		}
	}
	return nil
}

func (stripes) Close() error { return nil }

// float32s is the precision "none".
type float32s struct{}

func (float32s) Info() sdk.Info { return sdk.Info{Name: "none"} }
func (float32s) Policy(context.Context, sdk.Options) (sdk.Policy, error) {
	return sdk.Policy{Name: "none", Params: tensor.F32, Scale: 1}, nil
}
func (float32s) Update(context.Context, bool) (sdk.ScaleState, error) {
	return sdk.ScaleState{Scale: 1}, nil
}
func (float32s) State(context.Context) (map[string]float64, error) { return nil, nil }
func (float32s) Load(context.Context, map[string]float64) error    { return nil }
func (float32s) Close() error                                      { return nil }

// ready is a trainer of the ConvNet, rank 0 of two, with its first epoch begun.
func ready(t *testing.T, change func(*Settings)) (*Trainer, *counting) {
	t.Helper()
	s := Settings{
		Run: DefaultRun(), Train: Default(), Sampler: data.Default(), Model: nn.Config{Name: "convnet"},
		Optimizer: optim.DefaultFor("sgd"), Schedule: optim.DefaultSchedule(), DDP: ddp.Default(),
		BackendTimeout: 0, // a call within the process would make a context for a deadline; the ring to a plugin makes none
	}
	s.Train.PerRankBatch, s.Train.EvalEvery = 16, 0
	s.Optimizer.LR, s.Optimizer.Momentum = 0.01, 0.9
	s.Checkpoint.Every = "never"
	change(&s)
	backend := &counting{ops: map[sdk.Op]int{}}
	deps := Deps{
		Settings: s, World: rank.World{Size: 2, LocalSize: 2}, Device: cpu.New(),
		Backend: host.InProcessBackend(backend), Dataset: host.InProcessDataset(stripes{}), Precision: host.InProcessPrecision(float32s{}),
		Events: event.NewBus(0, event.NewJSONLines(io.Discard, nil)), Started: time.Now(),
		Gather: func(_ context.Context, _ string, mine []byte) ([][]byte, error) { return [][]byte{mine, mine}, nil },
	}
	tr, err := Setup(t.Context(), deps)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, close := range []func(context.Context) error{deps.Backend.Close, deps.Dataset.Close, deps.Precision.Close} {
			if err := close(context.Background()); err != nil {
				t.Error(err)
			}
		}
		if err := tr.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := tr.loader.Start(sdk.Train, 0, tr.sampler.Epoch(0)); err != nil {
		t.Fatal(err)
	}
	clear(backend.ops)
	return tr, backend
}

// A steady step allocates nothing: not in the plan, the reducer, the loader,
// the optimizer, nor in telling about it.
func TestStepDoesNotAllocate(t *testing.T) {
	for name, change := range map[string]func(*Settings){
		"convnet":      func(*Settings) {},
		"clipped":      func(s *Settings) { s.Train.MaxNorm = 1 },
		"accumulated":  func(s *Settings) { s.Train.AccumulateSteps = 2 },
		"many buckets": func(s *Settings) { s.DDP.BucketCapMB, s.DDP.FirstBucketMB = 0, 0 },
	} {
		t.Run(name, func(t *testing.T) {
			tr, _ := ready(t, change)
			step := func() {
				if _, err := tr.step(t.Context(), tr.cfg.Train.AccumulateSteps); err != nil {
					t.Fatal(err)
				}
			}
			for range warmup {
				step()
			}
			if n := testing.AllocsPerRun(20, step); n != 0 {
				t.Errorf("%v allocations in a step", n)
			}
			if !(tr.stats.lossMean < 1) {
				t.Errorf("the loss is still %v", tr.stats.lossMean)
			}
		})
	}
}

// Only the last micro-step communicates: every bucket once, and the scalars.
func TestAccumulatedStepsCommunicateOnce(t *testing.T) {
	tr, backend := ready(t, func(s *Settings) {
		s.Train.AccumulateSteps = 4
		s.DDP.BucketCapMB, s.DDP.FirstBucketMB = 0, 0
	})
	const steps = 5
	for range steps {
		if _, err := tr.step(t.Context(), 4); err != nil {
			t.Fatal(err)
		}
	}
	want := steps * (tr.reducer.Buckets() + 1)
	if got := backend.ops[sdk.OpAllReduce]; got != want || tr.reducer.Buckets() != 10 {
		t.Errorf("%d all-reduces in %d steps of 4 micro-steps over %d buckets, want %d", got, steps, tr.reducer.Buckets(), want)
	}
	if got := backend.ops[sdk.OpBroadcast]; got != steps {
		t.Errorf("%d broadcasts of the buffers in %d steps", got, steps)
	}
}
