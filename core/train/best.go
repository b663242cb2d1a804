package train

import (
	"strings"

	"github.com/trainctl/trainctl/core/report/event"
	"github.com/trainctl/trainctl/core/train/checkpoint"
	"github.com/trainctl/trainctl/core/train/report"
)

// bestEval knows the best value that a checkpoint holds of the metric that
// keep_best names. Evaluations give all ranks the same values, so all agree on
// which weights have to be saved for it.
type bestEval struct {
	cfg   checkpoint.Config
	known *checkpoint.Best
}

// evaluated reports whether the weights that an evaluation has just measured are
// the best so far, and takes note of them.
func (b *bestEval) evaluated(m report.Metrics, step int) bool {
	v, ok := m[b.cfg.KeepBest]
	if !ok || !strings.HasPrefix(b.cfg.KeepBest, "eval.") || v.Step != step || !event.Number(m.Value("eval.loss")).Finite() || !b.cfg.Improves(v.Value, step, b.known) {
		return false
	}
	b.known = &checkpoint.Best{Metric: b.cfg.KeepBest, Value: v.Value, Step: step}
	return true
}
