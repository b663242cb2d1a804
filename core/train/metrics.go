package train

import (
	"strings"

	"github.com/trainctl/trainctl/core/train/checkpoint"
)

// metrics are the newest values of what a run measures, each with the step that
// it was measured at: a checkpoint tells those of its own step alone.
type metrics map[string]metric

type metric struct {
	value float64
	step  int
}

func (m metrics) set(name string, value float64, step int) { m[name] = metric{value, step} }

func (m metrics) value(name string) float64 { return m[name].value }

// of are the values that were measured at a step.
func (m metrics) of(step int) map[string]float64 {
	out := make(map[string]float64, len(m))
	for name, v := range m {
		if v.step == step {
			out[name] = v.value
		}
	}
	return out
}

// bestEval knows the best value that a checkpoint holds of the metric that
// keep_best names. Evaluations give all ranks the same values, so all agree on
// which weights have to be saved for it.
type bestEval struct {
	cfg   checkpoint.Config
	known *checkpoint.Best
}

// evaluated reports whether the weights that an evaluation has just measured are
// the best so far, and takes note of them.
func (b *bestEval) evaluated(m metrics, step int) bool {
	v, ok := m[b.cfg.KeepBest]
	if !ok || !strings.HasPrefix(b.cfg.KeepBest, "eval.") || v.step != step || !isFinite(m.value("eval.loss")) || !b.cfg.Improves(v.value, step, b.known) {
		return false
	}
	b.known = &checkpoint.Best{Metric: b.cfg.KeepBest, Value: v.value, Step: step}
	return true
}
