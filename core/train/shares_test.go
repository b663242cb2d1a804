package train

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/trainctl/trainctl/core/base/usererr"
	"github.com/trainctl/trainctl/core/engine/nn"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/plugin/host"
	"github.com/trainctl/trainctl/core/report/event"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/train/checkpoint"
	"github.com/trainctl/trainctl/core/train/outline"
	"github.com/trainctl/trainctl/plugins/amp"
)

// withShares are two epochs in float64 with clipping and evaluations.
func withShares(weights []int, change func(d *Deps)) func(rank int, d *Deps) {
	return func(_ int, d *Deps) {
		s := &d.Settings
		s.Run.DType, s.Train.Epochs, s.Train.MaxNorm, s.Shares.Weights = "f64", 2, 0.5, weights
		change(d)
	}
}

// Whatever their shares are, ranks make the losses, gradients, evaluations and weights of ranks with
// equal shares, up to the order of sums.
func TestUnequalSharesGiveTheSameResult(t *testing.T) {
	for _, c := range []struct {
		name    string
		weights []int
		within  float64
		change  func(d *Deps)
	}{
		{"3 to 1", []int{3, 1}, 1e-9, func(*Deps) {}},
		{"1 to 3", []int{1, 3}, 1e-9, func(*Deps) {}},
		{"three ranks", []int{3, 1, 1}, 1e-9, func(*Deps) {}},
		{"a global batch that nothing divides", []int{3, 1, 2}, 1e-9, func(d *Deps) { d.Settings.Train.PerRankBatch, d.Settings.Train.GlobalBatch = 0, 11 }},
		{"a short last step in which a rank has nothing", []int{1, 7}, 1e-9, func(d *Deps) { d.Settings.Train.PerRankBatch, d.Settings.Train.GlobalBatch = 3, 29 }},
		{"accumulated", []int{3, 1}, 1e-9, func(d *Deps) { d.Settings.Train.AccumulateSteps = 2 }},
		{"neither padded nor dropped", []int{2, 3}, 1e-9, func(d *Deps) {
			d.Settings.Sampler.Pad, d.Settings.Train.PerRankBatch, d.Settings.Train.GlobalBatch = "none", 0, 8
		}},
		{"a text", []int{1, 2}, 1e-9, func(d *Deps) {
			d.Dataset, d.Settings.Dataset, d.Settings.DatasetOptions = host.InProcessDataset(positions{}), "positions", nil
			d.Settings.Model = nn.Config{Layers: []nn.LayerConfig{{Type: "embedding", Args: op.Args{"num_embeddings": 7, "embedding_dim": 7}}}}
			d.Settings.Train.PerRankBatch = 2
		}},
		{"synchronised batch norms", []int{3, 1}, 1e-9, func(d *Deps) {
			d.Settings.Model = nn.Config{Layers: []nn.LayerConfig{
				{Type: "conv2d", Args: op.Args{"out_channels": 2, "kernel_size": op.Pair{3, 3}}}, {Type: "batchnorm2d"}, {Type: "flatten"}, {Type: "linear", Args: op.Args{"out_features": 3}},
			}}
			d.Settings.DDP.SyncBatchNorm, d.Settings.Train.PerRankBatch, d.Settings.Train.GlobalBatch = true, 0, 8
		}},
		{"half types with a dynamic scale", []int{3, 1}, 2e-2, func(d *Deps) {
			d.Settings.Run.DType, d.Settings.Train.MaxNorm = "f32", 0
			d.Precision, d.Settings.PrecisionOpts = host.InProcessPrecision(amp.New()), sdk.Options{"dtype": "fp16"}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			want := outcomeOn(t, len(c.weights), withShares(nil, c.change))
			got := outcomeOn(t, len(c.weights), withShares(c.weights, c.change))
			got.equals(t, &want, c.within)
		})
	}
}

// A run whose shares change at a resume, with the number of ranks, goes on as if nothing had happened.
func TestSharesAtAResume(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	common := func(d *Deps) { d.Settings.Train.PerRankBatch, d.Settings.Train.GlobalBatch = 0, 8 }
	want := outcomeOn(t, 2, withShares(nil, common))
	save := saving(t, dir, checkpoint.Config{Every: "2 steps"}, nil)
	errs := onRanks(t, 2, func(rank int, d *Deps) {
		withShares([]int{3, 1}, common)(rank, d)
		save(rank, d)
		d.Settings.Train.MaxSteps = 2
		d.Settings.Train.EvalEvery = 0
	}, trainAndClose)
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	got := outcomeOn(t, 3, func(rank int, d *Deps) {
		withShares([]int{1, 2, 4}, common)(rank, d)
		d.Resume = dir
	})
	want.Losses, want.Norms, want.Rates = want.Losses[2:], want.Norms[2:], want.Rates[2:]
	got.equals(t, &want, 1e-9)
}

// Shares that do not fit the ranks are the configuration's mistake.
func TestSharesThatDoNotFit(t *testing.T) {
	for want, weights := range map[string][]int{"2 shares are given for 3 ranks": {1, 2}, "rank 1 gets none of the 12 samples of a step": {100, 1, 100}} {
		errs := onRanks(t, 3, withShares(weights, func(*Deps) {}), trainToTheEnd)
		if usererr.Problems(errs[0]) == nil || !strings.Contains(errs[0].Error(), want) {
			t.Errorf("%v", errs[0])
		}
	}
}

// Ranks that measure how fast they are give a slow one less, all the same, and the result stays that of
// equal shares.
func TestSharesFollowTheSpeedOfRanks(t *testing.T) {
	t.Parallel()
	const world, slow = 3, 1
	common := func(d *Deps) {
		d.Settings.Train.PerRankBatch, d.Settings.Train.GlobalBatch, d.Settings.Train.Epochs, d.Settings.Train.MaxSteps = 0, 24, 100, 2*sharePeriod+5
	}
	want := outcomeOn(t, world, withShares(nil, common))
	var mu sync.Mutex
	var told [world][]event.Shares
	got := outcomeOn(t, world, func(rank int, d *Deps) {
		withShares(nil, common)(rank, d)
		d.Settings.Shares.Auto = true
		if rank == slow {
			d.BeforeStep = func(int) error { time.Sleep(20 * time.Millisecond); return nil }
		}
		d.Events.Add(event.Func(func(r event.Record) {
			if e, ok := r.Event.(*event.Shares); ok {
				mu.Lock()
				defer mu.Unlock()
				told[rank] = append(told[rank], *e)
			}
		}))
	})
	got.equals(t, &want, 1e-9)
	if len(told[0]) == 0 {
		t.Fatal("shares never changed")
	}
	for rank := range told {
		if len(told[rank]) != len(told[0]) {
			t.Fatalf("rank %d changed its shares %d times, rank 0 %d times", rank, len(told[rank]), len(told[0]))
		}
		for i, e := range told[rank] {
			if !slices.Equal(e.Samples, told[0][i].Samples) || e.Step != told[0][i].Step {
				t.Errorf("rank %d: %+v, rank 0: %+v", rank, e, told[0][i])
			}
		}
	}
	if e := told[0][0]; e.Samples[slow] >= 8 || e.Slowest() != slow || e.Step != sharePeriod+1 || !slices.Equal(e.Before, []int{8, 8, 8}) {
		t.Errorf("%+v", e)
	}
}

// late is a data set whose batches come late.
type late struct{ positions }

func (d late) Fill(ctx context.Context, b *sdk.Batch) error {
	time.Sleep(time.Millisecond)
	return d.positions.Fill(ctx, b)
}

// What ranks measure is how long they compute: neither waits for other ranks nor those for data count.
func TestWaitsAreNoMeasureOfSpeed(t *testing.T) {
	t.Parallel()
	var want []float64
	data := 0.0
	errs := onRanks(t, 1, func(_ int, d *Deps) {
		d.Dataset, d.Settings.Dataset, d.Settings.DatasetOptions = host.InProcessDataset(late{}), "late", nil
		d.Settings.Model = nn.Config{Layers: []nn.LayerConfig{{Type: "embedding", Args: op.Args{"num_embeddings": 7, "embedding_dim": 7}}}}
		d.Settings.Train.PerRankBatch, d.Settings.Train.Epochs, d.Settings.Train.MaxSteps = 2, 9, sharePeriod-1
		d.Events.Add(event.Func(func(r event.Record) {
			if e, ok := r.Event.(*event.StepDone); ok && e.Step > shareWarmup {
				want, data = append(want, (e.StepMS-e.CommMS-e.DataMS)/float64(e.Samples)), data+e.DataMS
			}
		}))
	}, func(ctx context.Context, d Deps) error {
		tr, err := Setup(ctx, d)
		if err != nil {
			return err
		}
		defer tr.Close()
		tr.shares = newShares(true) // a single rank has no use for it
		if err := tr.Run(ctx); err != nil {
			return err
		}
		series(t, "milliseconds per sample", tr.shares.busy, want, 1e-6)
		return nil
	})
	if err := errors.Join(errs...); err != nil || data == 0 || len(want) == 0 {
		t.Errorf("%v, %d steps waited %v ms for data", err, len(want), data)
	}
}

func TestWeightsOfShares(t *testing.T) {
	for _, c := range []struct {
		times     []float64
		now, want []int // of 64 samples
		gain      float64
	}{
		{[]float64{1, 3}, []int{32, 32}, []int{48, 16}, 0.5},
		{[]float64{1, 3}, []int{48, 16}, []int{48, 16}, 0},
		{[]float64{1, 1.02}, []int{32, 32}, []int{32, 32}, 0},
		{[]float64{1, 1000}, []int{32, 32}, []int{60, 4}, 0.875}, // no less than an eighth of the mean speed
	} {
		tr := Trainer{outline: &outline.Outline{}}
		d := tr.outline.Division
		d.Step, d.Accumulate = 64, 1
		got := d.Weighted(weightsFor(c.times), 0).Shares.Whole()
		if gain := gainOf(c.times, c.now, got); !slices.Equal(got, c.want) || math.Abs(gain-c.gain) > 0.02 {
			t.Errorf("%v: %v, gain %.3f", c.times, got, gain)
		}
	}
}

// While shares stay, ranks exchange their times less and less often; only the last steps count.
func TestSharesAreMeasured(t *testing.T) {
	s := newShares(true)
	for step := 1; step <= 100; step++ {
		ms := 1
		if step > 60 {
			ms = 4
		}
		s.measure(step, time.Duration(ms)*time.Millisecond, 2)
	}
	if s.perSample() != 2 || !s.due(sharePeriod) || s.due(sharePeriod-1) {
		t.Errorf("%v ms, %+v", s.perSample(), s)
	}
	s.begin(100, 40)
	s.measure(101, time.Hour, 1) // right after a change
	s.measure(104, time.Hour, 0)
	if s.perSample() != 0 || s.due(139) || !s.due(140) {
		t.Errorf("%+v", s)
	}
}
