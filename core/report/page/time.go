package page

import (
	"cmp"
	"slices"
	"time"

	"github.com/trainctl/trainctl/core/report/rundir"
	"github.com/trainctl/trainctl/core/report/timeline"
)

// origin is the start of the first slice.
func origin(t *rundir.Trace) time.Duration {
	first := time.Duration(-1)
	for _, slices := range t.Ranks {
		for _, s := range slices {
			if first < 0 || s.Start < first {
				first = s.Start
			}
		}
	}
	return first
}

// share is a part of something, for bars.
type share struct {
	Name    string
	MS      float64 // per step
	Percent float64
	From    float64 // where its bar begins, in percent
}

// stepShares says where the mean step's time goes, as rank 0 measured it.
func stepShares(r *rundir.Run) []share {
	total := &r.Curves.Total
	step := total.Cells[rundir.StepMS]
	if step.N == 0 || step.Mean() <= 0 {
		return nil
	}
	data, comm := total.Cells[rundir.DataMS].Mean(), total.Cells[rundir.CommMS].Mean()
	return stacked([]share{
		{Name: "compute", MS: max(0, step.Mean()-data-comm)},
		{Name: "waiting for communication and slower ranks", MS: comm},
		{Name: "waiting for data", MS: data},
	})
}

// stacked fills in percentages.
func stacked(parts []share) []share {
	sum, from := 0.0, 0.0
	for _, p := range parts {
		sum += p.MS
	}
	for i := range parts {
		p := &parts[i]
		if sum > 0 {
			p.Percent = 100 * p.MS / sum
		}
		p.From = from
		from += p.Percent
	}
	return parts
}

// layerView is what a layer takes in the mean step. Bars are in percent of the slowest layer's.
type layerView struct {
	Name                       string
	Forward, Backward, Percent float64 // ms, ms, of all layers
	ForwardBar, BackwardBar    float64
}

// layers is the computing time of rank 0 by layer, in the order of the model.
func layers(r *rundir.Run) (out []layerView) {
	if r.Summary == nil {
		return nil
	}
	sum, most := 0.0, 0.0
	for _, l := range r.Summary.Layers {
		v := layerView{Name: rundir.Clean(l.Layer, 80), Forward: float64(l.ForwardMS), Backward: float64(l.BackwardMS)}
		sum, most = sum+v.Forward+v.Backward, max(most, v.Forward+v.Backward)
		out = append(out, v)
	}
	if !(most > 0) {
		return nil
	}
	for i := range out {
		v := &out[i]
		v.Percent = 100 * (v.Forward + v.Backward) / sum
		v.ForwardBar, v.BackwardBar = 100*v.Forward/most, 100*v.Backward/most
	}
	return out
}

// pauses are the seconds outside of steps.
func pauses(r *rundir.Run) (evaluating, saving float64) {
	for _, e := range r.Evals {
		evaluating += e.TookMS / 1000
	}
	for _, s := range r.Saves {
		saving += s.PauseMS / 1000
	}
	return evaluating, saving
}

// spent is what a rank did, per step of its trace.
type spent struct {
	Name   string
	Stream string
	MS     []float64 // by rank
}

// spentByRank adds up a trace by name.
func spentByRank(t *rundir.Trace) (out []spent, ranks int) {
	if t == nil {
		return nil, 0
	}
	ranks = min(len(t.Ranks), mostRanks)
	type key struct {
		stream timeline.Stream
		name   string
	}
	rows := map[key][]float64{}
	var keys []key
	for rank, all := range t.Ranks[:ranks] {
		steps := map[int]bool{}
		for _, s := range all {
			steps[s.Step] = true
			k := key{s.Stream, s.Name}
			if rows[k] == nil {
				rows[k] = make([]float64, ranks)
				keys = append(keys, k)
			}
			rows[k][rank] += float64(s.Length) / float64(time.Millisecond)
		}
		for _, sums := range rows {
			sums[rank] /= float64(max(1, len(steps)))
		}
	}
	slices.SortStableFunc(keys, func(a, b key) int { return cmp.Compare(a.stream, b.stream) })
	for _, k := range keys {
		out = append(out, spent{rundir.Clean(k.name, 80), k.stream.String(), rows[k]})
	}
	return out, ranks
}
