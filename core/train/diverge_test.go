package train

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/trainctl/trainctl/core/report/event"
	"github.com/trainctl/trainctl/core/train/checkpoint"
)

// Steps in a row count, and those in between that are finite end the row.
func TestDivergenceCountsStepsInARow(t *testing.T) {
	d := divergence{limit: 3}
	step := 0
	feed := func(finite ...bool) (err error) {
		for _, f := range finite {
			step++
			at := step
			if err = d.step(f, func() Diverged { return Diverged{Step: at} }); err != nil {
				return err
			}
		}
		return nil
	}
	if err := feed(false, false, true, false, false, true); err != nil {
		t.Fatal(err)
	}
	var end *Diverged
	if err := feed(false, false, false); !errors.As(err, &end) || end.Step != 7 || end.Steps != 3 {
		t.Errorf("%v", err)
	}
	never := divergence{}
	for range 1000 {
		if err := never.step(false, func() Diverged { return Diverged{} }); err != nil {
			t.Fatal(err)
		}
	}
}

func TestGradientsAreLookedAtNowAndThen(t *testing.T) {
	count := func(d divergence, steps int) (n int) {
		for s := 1; s <= steps; s++ {
			if d.due(s) {
				n++
			}
		}
		return n
	}
	for _, c := range []struct {
		d    divergence
		want int
	}{{divergence{limit: 100}, 4}, {divergence{limit: 10}, 20}, {divergence{}, 0}, {divergence{limit: 100, row: 1}, 200}} {
		if got := count(c.d, 200); got != c.want {
			t.Errorf("%+v: %d looks in 200 steps, want %d", c.d, got, c.want)
		}
	}
}

// exploding makes weights overflow within a few steps, without mixed precision.
func exploding(s *Settings) {
	s.Optimizer.LR, s.Optimizer.WeightDecay, s.Train.Epochs = 1e20, 1, 100
}

// A run without mixed precision ends when its loss stays non-finite, on all
// ranks alike; 0 lets it go on.
func TestDivergedRunEnds(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(s *Settings)
		steps  int // in a row; 0: the run is good
		last   int // step that was told of
	}{
		{"a few", func(s *Settings) { s.Train.MaxSkips = 5 }, 5, 5},
		{"clipped", func(s *Settings) { s.Train.MaxSkips, s.Train.MaxNorm = 5, 1 }, 5, 5},
		{"never", func(s *Settings) { s.Train.MaxSkips, s.Train.MaxSteps, s.Train.EvalEvery = 0, 20, 0 }, 0, 20},
		{"the run ends before", func(s *Settings) { s.Train.MaxSteps, s.Train.EvalEvery = 12, 0 }, 11, 12},
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
				var end *Diverged
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
		tr.updater.diverged.limit = 2
		tr.model.grads[1].F32()[2] = float32(math.Inf(1))
		tr.pos.Step = 1
		if err := tr.watch(0, 0.25, false); err != nil {
			return err
		}
		tr.pos.Step = 2
		var end *Diverged
		if err := tr.watch(0, 0.5, false); !errors.As(err, &end) || *end != (Diverged{Step: 2, Steps: 2, LR: 0.25, Parameter: "fc1.bias", What: "gradient"}) {
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
	errs := onRanks(t, 2, saving(t, dir, checkpoint.Config{Every: "1 steps", Keep: 1, KeepBest: "train.loss"}, func(s *Settings) {
		exploding(s)
		s.Train.MaxSkips = 20
	}), trainAndClose)
	if err := errors.Join(errs...); !errors.As(err, new(*Diverged)) {
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
