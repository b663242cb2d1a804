package passes

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/trainctl/trainctl/core/engine/cpu"
	"github.com/trainctl/trainctl/core/engine/nn"
	"github.com/trainctl/trainctl/core/report/event"
	"github.com/trainctl/trainctl/core/report/timeline"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/tensor"
	"github.com/trainctl/trainctl/core/train/data"
	"github.com/trainctl/trainctl/core/train/ddp"
	"github.com/trainctl/trainctl/core/train/outline"
	"github.com/trainctl/trainctl/core/train/replica"
)

// constant is a data set whose batches are all ones of class 1; it ends before
// its n-th batch; 0: never.
type constant struct{ rows, n, given int }

func (c *constant) Request(_ int, _ sdk.Split, _ int, _ uint64, indices []int64) error {
	c.rows = len(indices)
	return nil
}

func (c *constant) Wait(int) (input, target []byte, err error) {
	if c.given++; c.given == c.n {
		return nil, nil, sdk.ErrEndOfData
	}
	x, y := make([]float32, 4*4), []int32{1, 1, 1, 1}
	for i := range x {
		x[i] = 1
	}
	return tensor.Bytes(x), tensor.Bytes(y), nil
}

// newTestPasses trains a linear layer alone, on batches of 4 samples of 4 elements.
func newTestPasses(t *testing.T, src *constant, accumulate int) (*Passes, *replica.Model) {
	t.Helper()
	s := outline.Settings{
		Run: outline.DefaultRun(), Train: outline.DefaultTrain(), Sampler: data.Default(), DDP: ddp.Default(),
		Model: nn.Config{Layers: []nn.LayerConfig{{Type: "linear", Args: map[string]any{"out_features": 3}}}},
	}
	s.Train.PerRankBatch, s.Train.AccumulateSteps = 4, accumulate
	spec := sdk.DatasetSpec{
		Input:  tensor.Spec{DType: tensor.F32, Shape: tensor.Shape{4}},
		Target: tensor.Spec{DType: tensor.I32}, Classes: 3, TrainSamples: 16,
	}
	o, err := outline.New(s, spec, &sdk.Policy{Params: tensor.F32, Scale: 1}, 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	mem, err := replica.NewMemory(o.Layout)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { mem.Arena.Close() })
	m := &replica.Model{Graph: o.Graph, Values: mem.State(o.Graph.StateDict(), o.Plan.StateSpecs())}
	r := ddp.NewReducer(ddp.NewGroup(0, 1, nil, mem.Arena, mem.Scratch), s.DDP, o.Gradients, o.Buckets, mem.Buckets, mem.Wire)
	m.Grads = r.Gradients(o.Gradients)
	p := &Passes{
		Cfg: s.Train, Accumulate: accumulate, Model: m, Device: &replica.Device{Memory: &mem},
		Feeder:   data.NewFeeder(data.NewLoader(src, 2, o.Batch, 1), o.Sampler, o.Division, nil),
		Programs: Programs{Settings: &s, Outline: o, Policy: &sdk.Policy{Params: tensor.F32, Scale: 1}, Device: cpu.New(), Model: m, World: 1},
	}
	p.Connect(r)
	if err := p.Programs.Bind([]int{4}, 0, 1); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Programs.Close() })
	if err := p.Feeder.Start(0, 0); err != nil {
		t.Fatal(err)
	}
	return p, m
}

// Accumulated micro-batches give the gradients and the loss of one batch.
func TestPassesAddUp(t *testing.T) {
	var bias [2][]float32
	for i, accumulate := range []int{1, 3} {
		p, m := newTestPasses(t, &constant{}, accumulate)
		got, err := p.Run(Planned(data.Step{Passes: accumulate, Own: accumulate}, 1, false), outline.Position{}, 1)
		if err != nil {
			t.Fatal(err)
		}
		if got.Rows != 4*accumulate || got.Counted != got.Rows || math.Abs(got.Loss-math.Log(3)) > 1e-6 || got.Ended {
			t.Errorf("%d passes measure %+v", accumulate, got)
		}
		if err := p.reducer.Flush(); err != nil {
			t.Fatal(err)
		}
		bias[i] = m.Grads[1].F32()
	}
	for i, want := range []float64{1. / 3, -2. / 3, 1. / 3} { // softmax less one-hot
		for _, b := range bias {
			if math.Abs(float64(b[i])-want) > 1e-6 {
				t.Errorf("gradients %v, want %v at %d", bias, want, i)
			}
		}
	}
}

// A data set that ends inside a step is noted; the loss is the mean over the samples
// that there were. A rank without any leaves zeros.
func TestPassesWithoutABatch(t *testing.T) {
	p, m := newTestPasses(t, &constant{n: 2}, 2)
	got, err := p.Run(Inputs{Passes: 2, own: 2, Active: 1}, outline.Position{}, 1)
	if err != nil || !got.Ended || got.Rows != 4 || math.Abs(got.Loss-math.Log(3)) > 1e-6 {
		t.Errorf("measured %+v, %v", got, err)
	}
	if g := m.Grads[1].F32(); math.Abs(float64(g[1])+2./3) > 1e-6 { // as if the batch had been the whole step
		t.Errorf("gradients %v", g)
	}
	if got, err = p.Run(Inputs{Passes: 1, Active: 1}, outline.Position{}, 1); err != nil || got.Ended || got.Rows != 0 || got.Loss != 0 {
		t.Errorf("measured %+v, %v", got, err)
	}
	if g := m.Grads[1].F32(); g[0] != 0 || g[1] != 0 {
		t.Errorf("gradients without data are %v", g)
	}
}

// With a timeline, every operation is measured in each pass and belongs to a layer.
func TestLayersAreMeasured(t *testing.T) {
	p, _ := newTestPasses(t, &constant{}, 2)
	if p.Layers() != nil {
		t.Error("layers are reported that nobody measured")
	}
	p.Record(timeline.New(time.Now(), 4), true)
	pl := p.Programs.Train[4].Plan()
	if _, err := p.Run(Planned(data.Step{Passes: 2, Own: 2}, 1, false), outline.Position{}, 1); err != nil {
		t.Fatal(err)
	}
	measured := p.profile.sums[pl]
	if p.profile.count != 1 || len(measured) != len(pl.Steps()) || p.profile.begun.IsZero() {
		t.Fatalf("%d steps, %v", p.profile.count, measured)
	}
	for i := range measured {
		measured[i] = 3 * time.Millisecond
	}
	p.profile.count = 3
	if d := cmp.Diff([]event.LayerTime{{Layer: "0", ForwardMS: 1, BackwardMS: 2}, {Layer: "loss", ForwardMS: 1}}, p.Layers()); d != "" {
		t.Error(d)
	}
}

// What the device could not report before fails the step before it begins.
func TestPassesFailWithTheDevice(t *testing.T) {
	p, _ := newTestPasses(t, &constant{}, 1)
	p.Device.Fail(sdk.ErrEndOfData)
	if _, err := p.Run(Planned(data.Step{Passes: 1, Own: 1}, 1, false), outline.Position{}, 1); err == nil || !strings.Contains(err.Error(), sdk.ErrEndOfData.Error()) {
		t.Errorf("got %v", err)
	}
}
