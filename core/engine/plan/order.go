package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/engine/op"
)

// order checks that the graph has the passes that the plan needs.
func order(g *graph.Graph, train bool) error {
	if g.Stats() == graph.None {
		return fmt.Errorf("plan: the graph has no loss")
	}
	if !train {
		return nil
	}
	if len(g.Backward()) == 0 {
		if err := g.Differentiate(); err != nil {
			return err
		}
	}
	var missing []string
	for _, p := range g.Params() {
		if p.RequiresGrad && p.Gradient == graph.None {
			missing = append(missing, p.Name)
		}
	}
	if missing != nil {
		return fmt.Errorf("plan: these parameters get no gradient, because the loss does not depend on them: %s", strings.Join(missing, ", "))
	}
	return nil
}

// completions marks, for every parameter, the last step that writes its gradient. Where gradients of parameters wait for a
// value that another gradient makes again, theirs come first nonetheless: a plan that keeps the value has that order.
func (l *lowering) completions() {
	last := make([]int, len(l.g.Params()))
	for i := range last {
		last[i] = -1
	}
	l.eachGrad(func(step, param int) { last[param] = step })
	l.eachGrad(func(step, param int) {
		if last[param] == step {
			l.steps[step].complete = append(l.steps[step].complete, param)
		}
	})
	for i := range l.steps {
		if d := &l.steps[i]; d.made > 0 && len(d.complete) > 0 && slices.Contains(d.out, d.made) {
			own := d.complete
			d.complete = nil
			until := l.waiting(i)
			until.complete = append(until.complete, own...)
		}
	}
}

// waiting is the last step that waits for what step i makes again.
func (l *lowering) waiting(i int) *draft {
	until := &l.steps[i]
	for k := range l.steps[i:] {
		if d := &l.steps[i+k]; d.made == until.made {
			until = d
		}
	}
	return until
}

func (l *lowering) eachGrad(f func(step, param int)) {
	for i := range l.steps {
		for _, o := range l.steps[i].out {
			if o != absent && l.vals[o].place == PlaceGrad {
				f(i, l.vals[o].index)
			}
		}
	}
}

func gradOrder(steps []Step) (order []int) {
	for i := range steps {
		order = append(order, steps[i].Complete...)
	}
	return order
}

// firstBackward is the index of the first step after the loss.
func firstBackward(steps []Step) int {
	for i := len(steps); i > 0; i-- {
		if isLoss(steps[i-1].Op) {
			return i
		}
	}
	return len(steps)
}

func isLoss(step graph.Op) bool {
	d := op.Of(step)
	return d != nil && d.Loss && d.Name == step
}
