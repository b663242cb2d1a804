package train

import (
	"math"

	"github.com/trainctl/trainctl/core/base/usererr"
	"github.com/trainctl/trainctl/core/engine/optim"
	"github.com/trainctl/trainctl/core/report/event"
	"github.com/trainctl/trainctl/core/train/outline"
)

// earlyStop ends a run whose evaluations no longer improve, as Lightning's and Keras' EarlyStopping
// do: after patience evaluations in a row that are not better than the best by more than min_delta.
type earlyStop struct {
	cfg   outline.EarlyStop
	known bool // there is a best
	best  float64
	step  int // of the best
	bad   int // evaluations since the best
}

// over reports whether the run has to end. All ranks decide the same, because their evaluations are equal.
func (e *earlyStop) over() bool { return e.cfg.Metric != "" && e.bad >= e.cfg.Patience }

// observe takes the metric of an evaluation after a step. A NaN is no improvement.
func (e *earlyStop) observe(value float64, step int) {
	gain := e.best - value
	if optim.Higher(e.cfg.Metric) {
		gain = -gain
	}
	if !math.IsNaN(value) && (!e.known || gain > e.cfg.MinDelta) {
		e.best, e.step, e.known, e.bad = value, step, true, 0
		return
	}
	e.bad++
}

func (e *earlyStop) state() map[string]float64 {
	if e.cfg.Metric == "" {
		return nil
	}
	out := map[string]float64{"early_stop.bad": float64(e.bad), "early_stop.step": float64(e.step)}
	if e.known {
		out["early_stop.best"] = e.best
	}
	return out
}

func (e *earlyStop) load(state map[string]float64) {
	if bad, ok := state["early_stop.bad"]; ok && e.cfg.Metric != "" {
		e.bad, e.step = int(bad), int(state["early_stop.step"])
		e.best, e.known = state["early_stop.best"]
	}
}

// summary is what a run reports of it; nil without early stopping.
func (e *earlyStop) summary() *event.EarlyStop {
	if e.cfg.Metric == "" {
		return nil
	}
	return &event.EarlyStop{Metric: e.cfg.Metric, Best: event.Number(e.best), BestStep: e.step, Without: e.bad, Stopped: e.over()}
}

// observe passes an evaluation to the plateau schedule and to early stopping. It returns an error if
// this data or [eval] does not provide the metric.
func (t *Trainer) observe() error {
	if p, ok := t.updater.Schedule.(*optim.Plateau); ok {
		v, err := t.measured("lr_scheduler.metric", p.Metric())
		if err != nil {
			return err
		}
		p.Observe(v)
	}
	e := &t.saver.early
	if e.cfg.Metric == "" {
		return nil
	}
	v, err := t.measured("train.early_stop.metric", e.cfg.Metric)
	if err != nil {
		return err
	}
	if e.observe(v, t.pos.Step); e.over() && t.World.Rank == 0 {
		t.Events.Emit(e.summary())
	}
	return nil
}

// measured is a metric of the last evaluation.
func (t *Trainer) measured(key, metric string) (float64, error) {
	m, ok := t.report.Metrics[metric]
	if !ok || m.Step != t.pos.Step {
		return 0, usererr.Errorf(key, `use "eval.loss"`, "evaluations of this run do not give %s", metric)
	}
	return m.Value, nil
}

// watched returns the state of the plateau schedule and of early stopping.
func (t *Trainer) watched() map[string]float64 {
	out := t.saver.early.state()
	if p, ok := t.updater.Schedule.(*optim.Plateau); ok {
		if out == nil {
			out = map[string]float64{}
		}
		for k, v := range p.State() {
			out[k] = v
		}
	}
	return out
}

func (t *Trainer) rewatch(state map[string]float64) {
	t.saver.early.load(state)
	if p, ok := t.updater.Schedule.(*optim.Plateau); ok {
		p.Load(state)
	}
}
