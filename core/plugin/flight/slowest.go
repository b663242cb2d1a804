package flight

import (
	"fmt"
	"slices"
	"time"
)

// Slowest is the rank that the others waited for in most of the last steps.
type Slowest struct {
	Rank  int     `json:"rank"`
	Last  int     `json:"last"`   // how often it was the last rank to call the totals of a step
	Of    int     `json:"of"`     // steps that were compared
	LagMS float64 `json:"lag_ms"` // how long the others waited for it in such a step: the median of the longest waits
}

func (s *Slowest) String() string {
	return fmt.Sprintf("rank %d is the slowest: in %d of the last %d steps it was the last to finish its gradients, and the others waited up to %.3g ms for it (median)",
		s.Rank, s.Last, s.Of, s.LagMS)
}

// enoughSteps is the minimum number of steps after which a rank is called slow.
const enoughSteps = 20

// slowest finds the rank that came last in at least three of four steps, and that the others waited
// for during more than a tenth of the time. The rank that waited least for the totals of a step came
// last: clocks of different hosts are not compared. nil: no rank did.
func (r *Report) slowest() *Slowest {
	waits := r.waits()
	if len(r.Ranks) < 2 || len(waits) < enoughSteps {
		return nil
	}
	last, lags, total := make([]int, len(r.Ranks)), make([][]float64, len(r.Ranks)), make([]float64, len(r.Ranks))
	for _, of := range waits {
		least := slices.Index(of, slices.Min(of))
		lag := float64(slices.Max(of)-of[least]) / float64(time.Millisecond)
		last[least]++
		lags[least], total[least] = append(lags[least], lag), total[least]+lag
	}
	worst := slices.Index(last, slices.Max(last))
	if 4*last[worst] < 3*len(waits) || total[worst] < r.span()/10 {
		return nil
	}
	slices.Sort(lags[worst])
	return &Slowest{Rank: r.Ranks[worst].Rank, Last: last[worst], Of: len(waits), LagMS: lags[worst][len(lags[worst])/2]}
}

// waits are, for each reduction of totals that has ended on all ranks, how long each rank waited.
func (r *Report) waits() (all [][]time.Duration) {
	bySeq := map[uint64][]time.Duration{}
	for i := range r.Ranks {
		for _, o := range r.Ranks[i].Operations {
			if o.State != Ended || o.Bucket >= 0 || o.Reduce == "" || o.DType != "f64" {
				continue
			}
			if of := bySeq[o.Seq]; len(of) == i {
				bySeq[o.Seq] = append(of, o.Ended.Sub(o.Queued))
			}
		}
	}
	for _, of := range bySeq {
		if len(of) == len(r.Ranks) {
			all = append(all, of)
		}
	}
	return all
}

// span is the time in milliseconds over which a rank's operations are known.
func (r *Report) span() float64 {
	ops := r.Ranks[0].Operations
	end := r.Ranks[0].last(Ended)
	if len(ops) == 0 || end == nil {
		return 0
	}
	return float64(end.Ended.Sub(ops[0].Queued)) / float64(time.Millisecond)
}
