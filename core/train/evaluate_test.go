package train

import (
	"context"
	"math"
	"testing"

	"github.com/trainctl/trainctl/core/engine/nn"
	"github.com/trainctl/trainctl/core/engine/op"
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

// evaluateOn evaluates a model in float64 on the ranks of a world.
func evaluateOn(t *testing.T, world int, set func(d *Deps)) (done event.EvalDone) {
	t.Helper()
	errs := onRanks(t, world, func(rank int, d *Deps) {
		d.Settings.DatasetOptions, d.Settings.Run.DType = nil, "f64"
		set(d)
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

// positions is a data set with a class for each of three positions. Where gaps, it has the same
// targets among others that are ignored.
type positions struct{ gaps bool }

func (positions) Info() sdk.Info { return sdk.Info{Name: "positions"} }
func (positions) Close() error   { return nil }

func (positions) Open(context.Context, sdk.DatasetRequest) (sdk.DatasetSpec, error) {
	row := tensor.Spec{DType: tensor.I32, Shape: tensor.Shape{3}}
	return sdk.DatasetSpec{Source: "test", Input: row, Target: row, Vocabulary: 7, Classes: 7, TrainSamples: 8, TestSamples: 5, TestBytes: 60}, nil
}

// Fill gives sample i the tokens i, i+1 and i+2, and the targets i+1, i+2 and i+3, modulo 7.
// With gaps the last is ignored, and of sample 4 all are.
func (d positions) Fill(_ context.Context, b *sdk.Batch) error {
	x, y := tensor.View[int32](b.Input), tensor.View[int32](b.Target)
	for s, i := range b.Indices {
		for k := range 3 {
			x[3*s+k], y[3*s+k] = int32(i+int64(k))%7, int32(i+int64(k)+1)%7
			if d.gaps && (k == 2 || i == 4) {
				y[3*s+k] = sdk.IgnoreIndex
			}
		}
	}
	return nil
}

// The loss of an evaluation is that of its tokens that count, in whatever batches and on
// whatever ranks they are, and so is the perplexity.
func TestEvaluationIsPerToken(t *testing.T) {
	evaluate := func(world, batch int, gaps bool) event.EvalDone {
		return evaluateOn(t, world, func(d *Deps) {
			d.Dataset, d.Settings.Dataset = host.InProcessDataset(positions{gaps}), "positions"
			d.Settings.Train.EvalBatch = batch
			d.Settings.Model = nn.Config{Layers: []nn.LayerConfig{{Type: "embedding", Args: op.Args{"num_embeddings": 7, "embedding_dim": 7}}}}
		})
	}
	for _, gaps := range []bool{false, true} {
		tokens := 15
		if gaps {
			tokens = 8
		}
		want := evaluate(1, 5, gaps)
		for world := 1; world <= 3; world++ {
			for _, batch := range []int{1, 2, 5} {
				got := evaluate(world, batch, gaps)
				if got.Samples != 5 || got.Tokens != tokens || got.Accuracy != want.Accuracy || math.Abs(got.Loss-want.Loss) > 1e-12 {
					t.Errorf("gaps %v, %d ranks, batches of %d: %+v, want %+v", gaps, world, batch, got, want)
				}
				if got.Perplexity != math.Exp(got.Loss) || math.Abs(got.BitsPerByte-got.Loss*float64(tokens)/math.Ln2/60) > 1e-12 {
					t.Errorf("perplexity %v and %v bits per byte of a loss of %v", got.Perplexity, got.BitsPerByte, got.Loss)
				}
			}
		}
	}
}

// Samples without a target count for nothing, in whatever batches and on
// whatever ranks they are: PyTorch's cross_entropy over the whole test set.
func TestEvaluationLeavesOutWhatHasNoTarget(t *testing.T) {
	evaluate := func(world, batch int, gaps bool) event.EvalDone {
		return evaluateOn(t, world, func(d *Deps) {
			d.Dataset, d.Settings.Dataset = host.InProcessDataset(labels{gaps}), "labels"
			d.Settings.Train.EvalBatch = batch
		})
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
