package train

import (
	"context"
	"math"
	"testing"

	"github.com/trainctl/trainctl/core/plugin/host"
	"github.com/trainctl/trainctl/core/report/event"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/tensor"
)

// labels is a data set of few samples. Where gaps, two of three have no target;
// otherwise they are not there.
type labels struct{ gaps bool }

const labelled = 5 // samples with a target

func (labels) Info() sdk.Info { return sdk.Info{Name: "labels"} }
func (labels) Close() error   { return nil }

func (d labels) Open(context.Context, sdk.DatasetRequest) (sdk.DatasetSpec, error) {
	n := labelled
	if d.gaps {
		n *= 3
	}
	return sdk.DatasetSpec{
		Source: "test", Input: tensor.Spec{DType: tensor.F32, Shape: tensor.Shape{4}}, Target: tensor.Spec{DType: tensor.I32},
		Classes: 3, TrainSamples: 8, TestSamples: n,
	}, nil
}

func (d labels) Fill(_ context.Context, b *sdk.Batch) error {
	x, y := tensor.View[float32](b.Input), tensor.View[int32](b.Target)
	for s, i := range b.Indices {
		if !d.gaps {
			i *= 3
		}
		for k := range 4 {
			x[4*s+k] = float32(math.Sin(float64(4*i + int64(k))))
		}
		y[s] = int32(i % 2)
		if i%3 != 0 {
			y[s] = -100
		}
	}
	return nil
}

// Samples without a target count for nothing, in whatever batches and on
// whatever ranks they are: PyTorch's cross_entropy over the whole test set.
func TestEvaluationLeavesOutWhatHasNoTarget(t *testing.T) {
	evaluate := func(world, batch int, gaps bool) (done event.EvalDone) {
		t.Helper()
		errs := onRanks(t, world, func(rank int, d *Deps) {
			d.Dataset = host.InProcessDataset(labels{gaps})
			d.Settings.DatasetOptions, d.Settings.Dataset = nil, "labels"
			d.Settings.Run.DType, d.Settings.Train.EvalBatch = "f64", batch
			if rank == 0 {
				d.Events.Add(event.Func(func(r event.Record) {
					if e, ok := r.Event.(*event.EvalDone); ok {
						done = *e
					}
				}))
			}
		}, func(ctx context.Context, d Deps) error {
			tr, err := Setup(ctx, d)
			if err != nil {
				return err
			}
			defer tr.Close()
			_, _, err = tr.Evaluate(ctx)
			return err
		})
		for _, err := range errs {
			if err != nil {
				t.Fatal(err)
			}
		}
		return done
	}
	want := evaluate(1, labelled, false)
	for world := 1; world <= 3; world++ {
		for _, batch := range []int{1, 2, 4, 15} {
			got := evaluate(world, batch, true)
			if got.Samples != labelled || got.Accuracy != want.Accuracy || math.Abs(got.Loss-want.Loss) > 1e-12 {
				t.Errorf("%d ranks, batches of %d: loss %v and accuracy %v of %d samples, want %v and %v of %d",
					world, batch, got.Loss, got.Accuracy, got.Samples, want.Loss, want.Accuracy, labelled)
			}
		}
	}
}
