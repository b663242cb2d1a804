package plan

import (
	"maps"
	"slices"

	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/tensor"
)

// leanestBlocks compiles with blocks of several sizes, and returns the plan with the smallest
// arena: few blocks leave little between them, many take little to recompute one of them.
func leanestBlocks(g *graph.Graph, opt Options) (*Plan, error) {
	whole, err := compile(g, opt, effort{})
	if err != nil {
		return nil, err
	}
	best := whole
	for _, share := range []int{2, 3, 4, 6, 8, 12, 16, 24, 32, 64} {
		p, err := compile(g, opt, effort{block: max(1, whole.use.kept/share)})
		if err != nil {
			return nil, err
		}
		if p.arena.size < best.arena.size {
			best = p
		}
	}
	return best, nil
}

// dropBlocks lets backward run whole blocks of forward again (Chen et al., "Training Deep
// Nets with Sublinear Memory Cost", 2016). A block ends where a single value goes on to the
// steps behind it, as after a residual's sum, once it has made as many bytes for backward as
// asked for. That value is kept. So is the last block: backward starts with it.
func (r *recomputing) dropBlocks(bytes int) {
	reads, fixed := r.forwardReads(), r.ofParameters()
	live, block, size := map[int]bool{}, []int(nil), 0
	for i := range r.l.steps[:r.backward] {
		d := &r.l.steps[i]
		for _, v := range d.out {
			if v == absent || r.l.vals[v].place != PlaceArena {
				continue
			}
			if v = r.root(v); fixed[v] {
				continue
			}
			live[v] = true
			if r.kept(v) {
				block, size = append(block, v), size+tensor.RoundUp(r.l.vals[v].spec.Bytes(), align)
			}
		}
		maps.DeleteFunc(live, func(v int, _ bool) bool { return reads[v] <= i })
		if len(live) != 1 || size < bytes {
			continue
		}
		for v := range live {
			r.between[v] = true
		}
		for _, v := range block {
			made := r.maker[v]
			r.dropped[v] = r.remade(v) && !r.between[v] && r.inBranch(v, r.l.steps[made].branch)
		}
		block, size = nil, 0
	}
}

// forwardReads is the last step of forward that reads a value, by value.
func (r *recomputing) forwardReads() map[int]int {
	last := map[int]int{}
	for i, d := range r.l.steps[:r.backward] {
		for _, v := range d.in {
			if v != absent {
				last[r.root(v)] = i
			}
		}
	}
	return last
}

// ofParameters are values that depend on no sample, such as weights in a half type.
func (r *recomputing) ofParameters() map[int]bool {
	fixed := map[int]bool{}
	for _, d := range r.l.steps[:r.backward] {
		if slices.ContainsFunc(d.in, func(v int) bool { return v != absent && r.l.vals[v].place != PlaceState && !fixed[r.root(v)] }) {
			continue
		}
		for _, v := range d.out {
			if v != absent {
				fixed[r.root(v)] = true
			}
		}
	}
	return fixed
}

// remade reports whether backward can recompute a value: by the step that makes it, or by
// one that stands for it (op.Again), which makes its first output alone.
func (r *recomputing) remade(v int) bool {
	i, ok := r.maker[v]
	if !ok {
		return false
	}
	d := &r.l.steps[i]
	return r.repeats(d) || op.StepOf(d.op).Again.Op != "" && !op.StepOf(d.op).Again.Gradient && r.root(d.out[0]) == v
}

// repeats reports whether a step of forward gives the same bits when it runs again, and does nothing
// else. Dropout does: its mask depends on seed, step and layer. Batch norms move statistics.
func (r *recomputing) repeats(d *draft) bool {
	def := op.Of(d.op)
	if def == nil || def.Loss || def.Name != d.op && d.op != op.Cast || op.StepOf(d.op).Exchange != nil {
		return false
	}
	state := r.l.g.StateDict()
	return !slices.ContainsFunc(d.in, func(v int) bool {
		return v != absent && r.l.vals[v].place == PlaceState && state[r.l.vals[v].index].Buffer
	})
}

// substitute is the step that recomputes the outputs of another one.
func (r *recomputing) substitute(d *draft) op.Again {
	if !r.whole || !r.repeats(d) {
		return op.StepOf(d.op).Again
	}
	all := make([]int, len(d.in))
	for i := range all {
		all[i] = i
	}
	return op.Again{Op: d.op, In: all}
}
