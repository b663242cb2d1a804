package plan

import (
	"slices"

	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/engine/op"
)

// gradientsAgain lets the gradients of functions that compute for long make the functions'
// outputs again on their way. The gradients of parameters that read the outputs come
// before them, and are moved behind.
func (l *lowering) gradientsAgain() {
	backward := l.firstBackward()
	for i := range l.steps[:backward] {
		d := &l.steps[i]
		again := op.StepOf(d.op).Again
		if !again.Gradient || l.vals[d.out[0]].place != PlaceArena {
			continue
		}
		at := backward + slices.IndexFunc(l.steps[backward:], func(g draft) bool {
			return g.op == op.GradOp(d.op) && g.in[0] == d.in[0] && g.branch == d.branch && l.vals[g.out[0]].spec.DType == l.vals[d.out[0]].spec.DType
		})
		if at < backward {
			continue
		}
		if first := l.delayed(d.out[0], backward, at); first < at {
			l.makeAgain(d.out[0], again.Op, first, at)
		}
	}
}

// delayed is the first step from which on all that write gradients of parameters alone can
// wait until step at has run: they are the only ones of backward that read v. It is at if
// there are none, or others.
func (l *lowering) delayed(v, backward, at int) (first int) {
	first = at
	for i := len(l.steps) - 1; i >= backward; i-- {
		d := &l.steps[i]
		switch {
		case !l.readsMemory(d, v):
		case i > at || !l.writesGrads(d) || d.branch != l.steps[at].branch:
			return at
		default:
			first = i
		}
	}
	for i := first; i < at; i++ { // their order stays
		if d := &l.steps[i]; !l.writesGrads(d) && slices.ContainsFunc(d.out, l.isGrad) {
			return at
		}
	}
	return first
}

func (l *lowering) readsMemory(d *draft, v int) bool {
	return slices.ContainsFunc(d.in, func(in int) bool { return in != absent && l.vals[in].alias == l.vals[v].alias })
}

func (l *lowering) isGrad(v int) bool { return v != absent && l.vals[v].place == PlaceGrad }

// writesGrads reports whether a step writes gradients of parameters and nothing else, itself or by casts.
func (l *lowering) writesGrads(d *draft) bool {
	return !slices.ContainsFunc(d.out, func(v int) bool { return v != absent && !l.isGrad(v) && !l.castToGrad(v) })
}

// castToGrad reports whether nothing but a cast to the gradient of a parameter reads v.
func (l *lowering) castToGrad(v int) bool {
	cast, ok := l.onlyReader(v, op.Cast)
	return ok && l.isGrad(l.steps[cast].out[0])
}

// makeAgain lets the gradient of step at recompute v, and the gradients of parameters from
// step first on follow it and read that.
func (l *lowering) makeAgain(v int, step graph.Op, first, at int) {
	g := l.steps[at]
	made := l.declare(l.vals[v].spec, PlaceArena, 0)
	g.op, g.out, g.again, g.made = step, append(slices.Clone(g.out), made), true, made
	var before, after []draft
	for _, d := range l.steps[first:at] {
		if !l.writesGrads(&d) {
			before = append(before, d)
			continue
		}
		for k, in := range d.in {
			if in != absent && l.vals[in].alias == l.vals[v].alias {
				d.in[k] = l.renamed(in, v, made)
			}
		}
		d.made = made
		after = append(after, d)
	}
	copy(l.steps[first:], append(append(before, g), after...))
}

// renamed is v, which shares the memory of root, in the memory of another value.
func (l *lowering) renamed(v, root, memory int) int {
	if v == root {
		return memory
	}
	w := l.declare(l.vals[v].spec, PlaceArena, 0)
	l.vals[w].alias, l.vals[w].shift = memory, l.vals[v].shift
	return w
}
