package train

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"testing"

	"github.com/trainctl/trainctl/core/engine/nn"
	"github.com/trainctl/trainctl/core/plugin/host"
	"github.com/trainctl/trainctl/core/report/event"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/train/checkpoint"
	"github.com/trainctl/trainctl/core/train/ddp"
	"github.com/trainctl/trainctl/core/train/outline"
	"github.com/trainctl/trainctl/core/train/replica"
	"github.com/trainctl/trainctl/core/train/report"
)

// counter counts the collectives that a rank submits.
type counter [sdk.OpRecv + 1]atomic.Int64

func (c *counter) count(b host.Collectives) host.Collectives {
	return tapped{b, func(call *sdk.Collective) error { c[call.Op].Add(1); return nil }}
}

// Only the last micro-step of a step communicates: every bucket once, and the
// scalars. The buffers are broadcast once per step, before its first pass.
func TestAccumulatedStepsCommunicateOnce(t *testing.T) {
	const steps, buckets = 2, 10
	var counters [2]counter
	errs := onRanks(t, 2, func(rank int, d *Deps) {
		d.Backend = counters[rank].count(d.Backend)
		s := &d.Settings
		s.Model = nn.Config{Name: "convnet"}
		s.DatasetOptions["train_samples"] = int64(2 * 4 * 4 * steps)
		s.Train.AccumulateSteps, s.Train.EvalEvery = 4, 0
		s.DDP.BucketCapMB, s.DDP.FirstBucketMB = 0, 0
	}, func(ctx context.Context, d Deps) error {
		tr, err := Setup(ctx, d)
		if err != nil {
			return err
		}
		defer tr.Close()
		begun := counters[d.World.Rank][sdk.OpBroadcast].Load()
		if err := tr.Run(ctx); err != nil {
			return err
		}
		if tr.reducer.Buckets() != buckets || tr.pos.Step != steps {
			t.Errorf("%d buckets, %d steps", tr.reducer.Buckets(), tr.pos.Step)
		}
		// The end of the run settles the buffers once more.
		if got := counters[d.World.Rank][sdk.OpBroadcast].Load() - begun; got != steps+1 {
			t.Errorf("rank %d: %d broadcasts of the buffers in %d steps", d.World.Rank, got, steps)
		}
		return nil
	})
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	for r := range counters {
		if got := counters[r][sdk.OpAllReduce].Load(); got != steps*(buckets+1) {
			t.Errorf("rank %d: %d all-reduces in %d steps of 4 micro-steps over %d buckets", r, got, steps, buckets)
		}
	}
}

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
