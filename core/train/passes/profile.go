package passes

import (
	"strings"
	"time"

	"github.com/trainctl/trainctl/core/engine/plan"
	"github.com/trainctl/trainctl/core/report/event"
)

// profile adds up what the steps of training plans take. It is for devices that have computed a step when
// it returns.
type profile struct {
	sums   map[*plan.Plan][]time.Duration // by step
	plans  []*plan.Plan                   // in the order of their first pass
	count  int                            // optimizer steps
	now    []time.Duration                // of the pass under way
	begun  time.Time
	onStep func(step int, done bool)
}

func newProfile() *profile {
	p := &profile{sums: map[*plan.Plan][]time.Duration{}}
	p.onStep = p.step
	return p
}

// of prepares for a pass of a plan, the first of an optimizer step or a later one, and returns what the
// pass is to call.
func (p *profile) of(pl *plan.Plan, first bool) func(step int, done bool) {
	if p == nil {
		return nil
	}
	if first {
		p.count++
	}
	if p.now = p.sums[pl]; p.now == nil {
		p.now = make([]time.Duration, len(pl.Steps()))
		p.sums[pl], p.plans = p.now, append(p.plans, pl)
	}
	return p.onStep
}

func (p *profile) step(i int, done bool) {
	if done {
		p.now[i] += time.Since(p.begun)
		return
	}
	p.begun = time.Now()
}

// Layers is what the layers take in the mean step of this start of the ranks, in the order in which the
// model computes them; nil where it was not measured.
func (p *Passes) Layers() (out []event.LayerTime) {
	if p.profile == nil {
		return nil
	}
	at := map[string]int{}
	for _, pl := range p.profile.plans {
		for i, s := range pl.Steps() {
			name := layerOf(s.Layer)
			n, ok := at[name]
			if !ok {
				n = len(out)
				at[name] = n
				out = append(out, event.LayerTime{Layer: name})
			}
			ms := event.Number(event.Millis(p.profile.sums[pl][i]) / float64(p.profile.count))
			if i < pl.FirstBackward() {
				out[n].ForwardMS += ms
			} else {
				out[n].BackwardMS += ms
			}
		}
	}
	return out
}

// layerOf is the layer that a step belongs to: a cast has the name of a parameter.
func layerOf(name string) string {
	for _, parameter := range []string{".weight", ".bias"} {
		if layer, ok := strings.CutSuffix(name, parameter); ok {
			return layer
		}
	}
	return name
}
