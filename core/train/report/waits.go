package report

import (
	"slices"
	"time"

	"github.com/trainctl/trainctl/core/report/event"
	"github.com/trainctl/trainctl/core/tensor"
)

// waits are the times for which this rank waited for communication in the
// last steps, in milliseconds.
type waits struct {
	ring []float32
	n    int
}

// keptWaits is how many steps are compared between the ranks at the end: few
// enough to be exchanged by thousands of ranks.
const keptWaits = 2048

func newWaits() waits { return waits{ring: make([]float32, keptWaits)} }

func (w *waits) add(d time.Duration) {
	w.ring[w.n%keptWaits] = float32(event.Millis(d))
	w.n++
}

// last are the kept steps, the oldest first.
func (w *waits) last() []float32 {
	if w.n <= keptWaits {
		return w.ring[:w.n]
	}
	at := w.n % keptWaits
	return slices.Concat(w.ring[at:], w.ring[:at])
}

// Floats decodes Report.Waits of another rank.
func Floats(b []byte) []float32 {
	aligned := tensor.Aligned(len(b) &^ 3)
	copy(aligned, b)
	return tensor.View[float32](aligned)
}

// DivideWaits separates communication from waiting for slower ranks. The rank that waited least in
// a step came last and did not wait: its wait is what communication cost that step. What
// the others waited longer is imbalance. In a step with several synchronisation points at which
// different ranks come last, some imbalance is counted as communication, but never communication as
// imbalance. Clocks of different hosts are not compared. The medians over the steps are returned.
func DivideWaits(ranks [][]float32) (exposed, imbalance event.Number) {
	steps := len(ranks[0])
	for _, w := range ranks {
		steps = min(steps, len(w))
	}
	least, spread := make([]float64, steps), make([]float64, steps)
	for i := range steps {
		lo, hi := ranks[0][i], ranks[0][i]
		for _, w := range ranks {
			lo, hi = min(lo, w[i]), max(hi, w[i])
		}
		least[i], spread[i] = float64(lo), float64(hi-lo)
	}
	return quantile(least, 0.5), quantile(spread, 0.5)
}

// Slowest returns the rank that came last in at least three of four steps, so that the
// others waited for it; -1 if no rank did.
func Slowest(ranks [][]float32) int {
	last, steps := make([]int, len(ranks)), len(ranks[0])
	for _, w := range ranks {
		steps = min(steps, len(w))
	}
	for i := range steps {
		least := 0
		for r, w := range ranks {
			if w[i] < ranks[least][i] {
				least = r
			}
		}
		last[least]++
	}
	for r, n := range last {
		if len(ranks) > 1 && steps >= enoughWaits && 4*n >= 3*steps {
			return r
		}
	}
	return -1
}

// enoughWaits is the minimum number of steps after which a rank is called slow.
const enoughWaits = 50

// quantile of values in any order; 0 without values.
func quantile(v []float64, q float64) event.Number {
	if len(v) == 0 {
		return 0
	}
	s := slices.Clone(v)
	slices.Sort(s)
	return event.Number(s[min(len(s)-1, int(q*float64(len(s))))])
}
