package train

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/trainctl/trainctl/core/report/event"
	"github.com/trainctl/trainctl/core/train/checkpoint"
	"github.com/trainctl/trainctl/core/train/ddp"
	"github.com/trainctl/trainctl/core/train/outline"
	"github.com/trainctl/trainctl/core/train/replica"
	"github.com/trainctl/trainctl/core/train/report"
)

// The best checkpoint has the weights that were evaluated, whatever `every` is,
// and every manifest tells what was measured at its own step.
func TestBestWeightsAreThoseEvaluated(t *testing.T) {
	for _, every := range []string{"1 epoch", "3 epochs", "3 steps", "1000 steps"} {
		t.Run(every, func(t *testing.T) {
			dir := t.TempDir()
			setUp := saving(t, dir, checkpoint.Config{Every: every, KeepBest: "eval.loss", Keep: 1}, func(s *outline.Settings) {
				s.Train.Epochs, s.Optimizer.LR = 9, 2 // soon too much: the last epoch is not the best
			})
			evaluated, losses := map[int]string{}, map[int]float64{}
			errs := onRanks(t, 2, setUp, func(ctx context.Context, d Deps) error {
				tr, err := Setup(ctx, d)
				if err != nil {
					return err
				}
				defer tr.Close()
				if d.World.Rank == 0 {
					d.Events.Add(event.Func(func(r event.Record) {
						if e, ok := r.Event.(*event.EvalDone); ok {
							evaluated[e.Step], losses[e.Step] = ddp.Hash(tr.model.Values), e.Loss
						}
					}))
					defer d.Store.Close()
				}
				return tr.Run(ctx)
			})
			if err := errors.Join(errs...); err != nil {
				t.Fatal(err)
			}
			best, last := 0, 0
			for step, loss := range losses {
				if last = max(last, step); best == 0 || loss < losses[best] || loss == losses[best] && step < best {
					best = step
				}
			}
			if best == last {
				t.Fatal("the last evaluation is the best: the test shows nothing")
			}
			snap, _, err := checkpoint.Load(t.Context(), checkpoint.OsFS(), fmt.Sprintf("%s/step-%d", dir, best))
			if err != nil {
				t.Fatal(err)
			}
			if ddp.Hash(replica.Tensors(snap.Model)) != evaluated[best] {
				t.Error("the best checkpoint has other weights than were evaluated")
			}
			list, err := checkpoint.List(checkpoint.OsFS(), dir)
			if err != nil {
				t.Fatal(err)
			}
			for _, i := range list {
				loss, told := i.Manifest.Metrics["eval.loss"]
				if want, ok := losses[i.Manifest.Step]; told != ok || ok && float64(loss) != want {
					t.Errorf("step %d: eval.loss %v, %v; evaluated %v, %v", i.Manifest.Step, loss, told, want, ok)
				}
				if i.Manifest.Best == nil || i.Manifest.Best.Step != best {
					t.Errorf("step %d: the best is %+v, want step %d", i.Manifest.Step, i.Manifest.Best, best)
				}
			}
		})
	}
}

func TestBestEvaluation(t *testing.T) {
	m := report.Metrics{}
	b := bestEval{cfg: checkpoint.Config{KeepBest: "eval.accuracy"}}
	evaluation := func(step int, loss, accuracy float64, want bool) {
		t.Helper()
		m.Set("eval.loss", loss, step)
		m.Set("eval.accuracy", accuracy, step)
		if got := b.evaluated(m, step); got != want {
			t.Errorf("step %d: %v", step, got)
		}
	}
	evaluation(1, 2, 0.5, true)
	evaluation(2, 1, 0.5, false)
	evaluation(3, math.NaN(), 0.9, false) // a diverged model may guess well
	evaluation(4, 1, 0.6, true)
	b.cfg.KeepBest = "train.loss"
	m.Set("train.loss", 0, 5)
	evaluation(5, 0, 0, false)
}
