package train

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/trainctl/trainctl/core/report/event"
	"github.com/trainctl/trainctl/core/train/checkpoint"
	"github.com/trainctl/trainctl/core/train/ddp"
	"github.com/trainctl/trainctl/core/train/outline"
)

// Evaluations in a row without a change of more than min_delta for the better end the run; NaN is none.
func TestEarlyStop(t *testing.T) {
	nan := math.NaN()
	for _, c := range []struct {
		cfg    outline.EarlyStop
		values []float64
		ends   int // after so many evaluations; 0: not
		best   int
	}{
		{outline.EarlyStop{Metric: "eval.loss", Patience: 2}, []float64{3, 2, 2, 1, 1.5, 1, 0.5}, 6, 4},
		{outline.EarlyStop{Metric: "eval.loss", Patience: 2, MinDelta: 0.5}, []float64{3, 2.6, 2.4, 2, 1.9}, 5, 3},
		{outline.EarlyStop{Metric: "eval.accuracy", Patience: 1}, []float64{0.1, 0.2, 0.2}, 3, 2},
		{outline.EarlyStop{Metric: "eval.loss", Patience: 2}, []float64{nan, 3, nan, 2, nan, nan}, 6, 4},
		{outline.EarlyStop{Metric: "eval.loss", Patience: 2}, []float64{nan, nan}, 2, 0},
		{outline.EarlyStop{Patience: 1}, []float64{1, 2, 3}, 0, 1},
	} {
		e, ends := earlyStop{cfg: c.cfg}, 0
		for i, v := range c.values {
			next := earlyStop{cfg: c.cfg}
			next.load(e.state())
			if c.cfg.Metric != "" {
				e = next
			}
			if e.observe(v, i+1); e.over() {
				ends = i + 1
				break
			}
		}
		if ends != c.ends || e.step != c.best {
			t.Errorf("%+v, %v: ends after %d with the best at %d, want %d and %d", c.cfg, c.values, ends, e.step, c.ends, c.best)
		}
	}
}

// A run that follows its evaluations and is resumed after any of them has the learning rates,
// the end and the weights of one that was not interrupted.
func TestWatchedRunsResume(t *testing.T) {
	type result struct {
		lrs     map[int]float64
		params  string
		steps   int
		summary *event.EarlyStop
	}
	const ranks = 2
	dir := t.TempDir()
	train := func(resume, dir string) (got result) {
		got.lrs = map[int]float64{}
		setUp := saving(t, dir, checkpoint.Config{Every: "1 epoch"}, func(s *outline.Settings) {
			s.Train.Epochs, s.Optimizer.LR = 12, 1.5 // too much: losses rise
			s.Schedule.Name, s.Schedule.Patience, s.Schedule.Gamma = "plateau", 0, 0.5
			s.Train.EarlyStop = outline.EarlyStop{Metric: "eval.loss", Patience: 5, MinDelta: 0.2}
		})
		errs := onRanks(t, ranks, func(rank int, d *Deps) { setUp(rank, d); d.Resume = resume }, func(ctx context.Context, d Deps) error {
			tr, err := Setup(ctx, d)
			if err != nil {
				return err
			}
			defer tr.Close()
			if d.World.Rank == 0 {
				defer d.Store.Close()
				d.Events.Add(event.Func(func(r event.Record) {
					if e, ok := r.Event.(*event.StepDone); ok {
						got.lrs[e.Step] = e.LR
					}
				}))
			}
			if err := tr.Run(ctx); err != nil || d.World.Rank != 0 {
				return err
			}
			s := tr.ownSummary()
			got.params, got.steps, got.summary = ddp.Hash(tr.model.Values), s.Steps, s.EarlyStop
			return nil
		})
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
		return got
	}
	whole := train("", dir)
	perEpoch := 4
	if whole.summary == nil || !whole.summary.Stopped || whole.steps == 12*perEpoch || whole.lrs[whole.steps] == whole.lrs[1] {
		t.Fatalf("%+v, %+v: the test shows nothing", whole, whole.summary)
	}
	for step := perEpoch; step < whole.steps; step += 2 * perEpoch {
		again := train(fmt.Sprintf("%s/step-%d", dir, step), t.TempDir())
		for at, lr := range again.lrs {
			if lr != whole.lrs[at] || at <= step {
				t.Errorf("resumed after step %d: the learning rate of step %d is %v, want %v", step, at, lr, whole.lrs[at])
			}
		}
		if again.params != whole.params || again.steps != whole.steps || *again.summary != *whole.summary {
			t.Errorf("resumed after step %d: %d steps, %+v, want %d, %+v; same weights: %v", step, again.steps, again.summary, whole.steps, whole.summary, again.params == whole.params)
		}
	}
}

// Evaluations are of the averages, which a checkpoint has as weights of their own, and a resumed run
// has the same; also where each rank has a part of them, or trains on its own.
func TestAveragesAreEvaluatedAndSaved(t *testing.T) {
	whole := evaluatedAverages(t, func(*outline.Settings) {})
	parts := evaluatedAverages(t, func(s *outline.Settings) { s.DDP.Shard = ddp.ShardOptimizer })
	if fmt.Sprint(parts) != fmt.Sprint(whole) {
		t.Errorf("losses %v where ranks have parts of the averages, %v where they have all", parts, whole)
	}
	evaluatedAverages(t, func(s *outline.Settings) { s.DDP.SyncEvery = 3 })
}

// evaluatedAverages returns the losses of the evaluations of a run of four epochs.
func evaluatedAverages(t *testing.T, change func(s *outline.Settings)) []float64 {
	t.Helper()
	dir, again := t.TempDir(), t.TempDir()
	train := func(dir, resume string, decay float64) (losses []float64) {
		setUp := saving(t, dir, checkpoint.Config{Every: "1 epoch"}, func(s *outline.Settings) {
			s.Train.Epochs, s.Optimizer.EMADecay = 4, decay
			change(s)
		})
		errs := onRanks(t, 2, func(rank int, d *Deps) {
			setUp(rank, d)
			if d.Resume = resume; rank == 0 {
				d.Events.Add(event.Func(func(r event.Record) {
					if e, ok := r.Event.(*event.EvalDone); ok {
						losses = append(losses, e.Loss)
					}
				}))
			}
		}, trainAndClose)
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
		return losses
	}
	load := func(path string) *checkpoint.Snapshot {
		t.Helper()
		snap, _, err := checkpoint.Load(t.Context(), checkpoint.OsFS(), path)
		if err != nil {
			t.Fatal(err)
		}
		return snap
	}
	whole, plain := train(dir, "", 0.9), train(t.TempDir(), "", 0)
	if len(whole) != 4 || whole[3] == plain[3] {
		t.Fatalf("losses %v with averages and %v without", whole, plain)
	}
	if got := train(again, dir+"/step-8", 0.9); fmt.Sprint(got) != fmt.Sprint(whole[2:]) {
		t.Errorf("losses of the resumed run %v, want %v", got, whole[2:])
	}
	state, average := load(dir+"/step-16"), load(dir+"/step-16/"+checkpoint.AverageFile)
	for i, e := range average.Model {
		if w := state.Model[i]; e.Name != w.Name || !e.Shape.Equal(w.Shape) || bytes.Equal(e.Data, w.Data) {
			t.Errorf("%s: %v beside %s: %v, or the same numbers", e.Name, e.Spec(), w.Name, w.Spec())
		}
		if other := load(again + "/step-16/" + checkpoint.AverageFile).Model[i]; !bytes.Equal(e.Data, other.Data) {
			t.Errorf("%s differs in the resumed run", e.Name)
		}
	}
	errs := onRanks(t, 1, func(_ int, d *Deps) { d.Resume = dir + "/step-16/" + checkpoint.AverageFile }, func(ctx context.Context, d Deps) error {
		d.EvalOnly = true
		tr, err := Setup(ctx, d)
		if err != nil {
			return err
		}
		defer tr.Close()
		loss, _, err := tr.Evaluate(ctx)
		if err == nil && math.Abs(loss-whole[3]) > 1e-6 {
			t.Errorf("the averages' file evaluates to %v, the run had %v", loss, whole[3])
		}
		return err
	})
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	return whole
}
