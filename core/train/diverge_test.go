package train

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/trainctl/trainctl/core/report/event"
	"github.com/trainctl/trainctl/core/train/checkpoint"
	"github.com/trainctl/trainctl/core/train/outline"
	"github.com/trainctl/trainctl/core/train/update"
)

// exploding makes weights overflow within a few steps, without mixed precision.
func exploding(s *outline.Settings) {
	s.Optimizer.LR, s.Optimizer.WeightDecay, s.Train.Epochs = 1e20, 1, 100
}

// A run without mixed precision ends when its loss stays non-finite, on all
// ranks alike; 0 lets it go on.
func TestDivergedRunEnds(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(s *outline.Settings)
		steps  int // in a row; 0: the run is good
		last   int // step that was told of
	}{
		{"a few", func(s *outline.Settings) { s.Train.MaxSkips = 5 }, 5, 5},
		{"clipped", func(s *outline.Settings) { s.Train.MaxSkips, s.Train.MaxNorm = 5, 1 }, 5, 5},
		{"never", func(s *outline.Settings) { s.Train.MaxSkips, s.Train.MaxSteps, s.Train.EvalEvery = 0, 20, 0 }, 0, 20},
		{"the run ends before", func(s *outline.Settings) { s.Train.MaxSteps, s.Train.EvalEvery = 12, 0 }, 11, 12},
	} {
		t.Run(c.name, func(t *testing.T) {
			var told, warned int
			errs := onRanks(t, 2, func(rank int, d *Deps) {
				exploding(&d.Settings)
				c.change(&d.Settings)
				if rank == 0 {
					d.Events.Add(event.Func(func(r event.Record) {
						switch e := r.Event.(type) {
						case *event.StepDone:
							told = e.Step
						case *event.Warning:
							warned++
						}
					}))
				}
			}, trainToTheEnd)
			for r, err := range errs {
				var end *update.Diverged
				switch {
				case c.steps == 0 && err == nil:
				case !errors.As(err, &end) || end.Steps != c.steps || end.Step != 2 || end.Parameter != "fc1.weight" || end.LR != 1e20:
					t.Errorf("rank %d: %v", r, err)
				case !strings.Contains(err.Error(), "diverged at step 2: ") || !strings.Contains(err.Error(), "learning rate 1e+20"):
					t.Errorf("rank %d says %v", r, err)
				}
			}
			if told != c.last || warned != 1 {
				t.Errorf("the last step told of is %d, want %d; %d warnings", told, c.last, warned)
			}
		})
	}
}

// Gradients that are not finite are found where the loss is, and named.
func TestGradientsWithoutAFiniteValue(t *testing.T) {
	errs := onRanks(t, 1, nil, func(ctx context.Context, d Deps) error {
		tr, err := Setup(ctx, d)
		if err != nil {
			return err
		}
		defer tr.Close()
		tr.updater.Diverged.Limit = 2
		tr.model.Grads[1].F32()[2] = float32(math.Inf(1))
		tr.pos.Step = 1
		if err := tr.watch(ctx, 0, 0.25, false); err != nil {
			return err
		}
		tr.pos.Step = 2
		var end *update.Diverged
		if err := tr.watch(ctx, 0, 0.5, false); !errors.As(err, &end) || *end != (update.Diverged{Step: 2, Steps: 2, LR: 0.25, Parameter: "fc1.bias", What: "gradient"}) {
			t.Errorf("%+v, %v", end, err)
		}
		return nil
	})
	if errs[0] != nil {
		t.Fatal(errs[0])
	}
}

// What a diverged run leaves is a finite checkpoint to continue from.
func TestDivergedRunKeepsFiniteCheckpoints(t *testing.T) {
	dir := t.TempDir()
	errs := onRanks(t, 2, saving(t, dir, checkpoint.Config{Every: "1 steps", Keep: 1, KeepBest: "train.loss"}, func(s *outline.Settings) {
		exploding(s)
		s.Train.MaxSkips = 20
	}), trainAndClose)
	if err := errors.Join(errs...); !errors.As(err, new(*update.Diverged)) {
		t.Fatal(err)
	}
	snap, r, err := checkpoint.Load(t.Context(), checkpoint.OsFS(), dir)
	if err != nil {
		t.Fatal(err)
	}
	if first := checkpoint.FirstNonFinite(snap.Model); first != "" || snap.Step > 2 || len(r.Skipped) == 0 {
		t.Errorf("step %d is loaded, %s is not finite, passed over: %v", snap.Step, first, r.Skipped)
	}
}
