package plan

import (
	"maps"
	"slices"

	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/tensor"
)

// longestChain is how many steps may run in sequence to recompute a value. Each
// needs memory while the others are made, so long chains win nothing.
const longestChain = 4

// recomputing lets backward recompute values just before it reads them, where
// forward has kept what they were made of anyway: an activation from the input of its
// function, a normalised image from the convolution's output and the statistics.
type recomputing struct {
	l        *lowering
	backward int         // first step of backward
	maker    map[int]int // by value: the step whose output it is
	last     map[int]int // by value: the last step that reads it
	chain    map[int]int // by value that can be recomputed: the steps it takes
	dropped  map[int]bool
	made     map[int]int  // by value: what has been recomputed
	read     map[int]bool // those of made that backward has read, and not only links of a chain
	anew     bool         // links are not kept for later readers
	short    bool         // see effort.short
	whole    bool         // steps may run again as they are
	between  map[int]bool // values between blocks, which are kept
}

// effort is what backward recomputes; the zero value is nothing.
type effort struct {
	cheap     bool // what takes a pass over memory
	anew      bool // links of a chain once more for each value that is made of them
	functions bool // outputs of functions whose gradients compute most of them
	short     bool // outputs of layers that are sums of few products
	block     int  // all that blocks of layers make, each of at least so many bytes
}

// leanest compiles with the effort that its memory is worth: a pass over memory a sixteenth
// of the arena, more passes over the links of chains another sixteenth, functions and layers of few
// products a fifth each, if that is more than caches hold.
func leanest(g *graph.Graph, opt Options) (*Plan, error) {
	const cached = 32 << 20
	var spent effort
	best, err := compile(g, opt, spent)
	if err != nil {
		return nil, err
	}
	for _, more := range []struct {
		spend        func(*effort)
		share, least int
	}{
		{func(e *effort) { e.cheap = true }, 16, 0},
		{func(e *effort) { e.cheap, e.anew = true, true }, 16, 0},
		{func(e *effort) { e.cheap, e.functions = true, true }, 5, cached},
		{func(e *effort) { e.cheap, e.short = true, true }, 5, cached},
	} {
		if best.arena.size <= more.least {
			continue // no plan saves that much
		}
		again := spent
		more.spend(&again)
		p, err := compile(g, opt, again)
		if err != nil {
			return nil, err
		}
		if saved := best.arena.size - p.arena.size; saved > max(best.arena.size/more.share, more.least) {
			best, spent = p, again
		}
	}
	return best, nil
}

// recompute replaces what is read in backward but need not be kept since forward.
// Results stay the same to the bit.
func (l *lowering) recompute(again effort) {
	if again.functions {
		l.gradientsAgain()
		l.fuseCasts() // those that were kept for slopes
	}
	if again == (effort{}) {
		return
	}
	r := &recomputing{
		l: l, backward: l.firstBackward(), maker: map[int]int{}, last: map[int]int{},
		chain: map[int]int{}, dropped: map[int]bool{}, made: map[int]int{}, read: map[int]bool{}, anew: again.anew, short: again.short,
		whole: again.block > 0, between: map[int]bool{},
	}
	r.survey()
	if r.whole {
		r.dropBlocks(again.block)
	} else {
		for i := range l.steps[:r.backward] {
			r.decide(i)
		}
	}
	back := l.steps[r.backward:]
	l.steps = slices.Clip(l.steps[:r.backward])
	for _, d := range back {
		for k, v := range d.in {
			d.in[k] = r.replaced(v)
		}
		l.steps = append(l.steps, d)
		r.forget()
	}
}

// forget drops the links of the chains that the last step of backward needed, unless it or one before
// it has read them.
func (r *recomputing) forget() {
	if r.anew {
		maps.DeleteFunc(r.made, func(v, _ int) bool { return !r.read[v] })
	}
}

func (l *lowering) firstBackward() int {
	last := len(l.steps)
	for last > 0 && !isLoss(l.steps[last-1].op) {
		last--
	}
	return last
}

func (r *recomputing) survey() {
	for i, d := range r.l.steps {
		for _, v := range d.in {
			if v != absent {
				r.last[r.root(v)] = i
			}
		}
		for _, v := range d.out {
			if i < r.backward && v != absent && r.l.vals[v].place == PlaceArena {
				r.maker[r.root(v)] = i
			}
		}
	}
}

func (r *recomputing) root(v int) int { return r.l.vals[v].alias }

// decide drops the first output of forward step i if it can be recomputed.
func (r *recomputing) decide(i int) {
	d := &r.l.steps[i]
	again := op.StepOf(d.op).Again
	if again.Op == "" || again.Gradient || d.out[0] == absent || r.l.vals[d.out[0]].place != PlaceArena {
		return
	}
	if again.Short != nil && !(r.short && again.Short(r.specs(d.in))) {
		return
	}
	v, length := r.root(d.out[0]), 0
	for _, u := range d.operands(again.In) {
		if u == absent || r.l.vals[u].place != PlaceArena {
			continue
		}
		u = r.root(u)
		n, ok := r.chain[u]
		if r.kept(u) && !r.dropped[u] {
			n, ok = 0, r.last[u] >= r.last[v]
		}
		if !ok {
			return
		}
		length = max(length, n+1)
	}
	if length <= longestChain {
		r.chain[v] = length
		r.dropped[v] = length > 0 && r.kept(v) && r.inBranch(v, d.branch) // not what is made of parameters alone, as their casts
	}
}

// specs are those of values, zero where they are absent.
func (r *recomputing) specs(vals []int) []tensor.Spec {
	specs := make([]tensor.Spec, len(vals))
	for i, v := range vals {
		if v != absent {
			specs[i] = r.l.vals[v].spec
		}
	}
	return specs
}

// kept reports whether backward reads what forward has made.
func (r *recomputing) kept(v int) bool { return r.last[v] >= r.backward }

// inBranch reports whether a value is made in every run in which a step of
// backward reads it.
func (r *recomputing) inBranch(v, branch int) bool {
	return branch == 0 || !slices.ContainsFunc(r.l.steps[r.backward:], func(d draft) bool {
		return d.branch != branch && slices.ContainsFunc(d.in, func(u int) bool { return u != absent && r.root(u) == v })
	})
}

// operands are inputs i and outputs ^i of a step, absent ones where it has fewer.
func (d *draft) operands(which []int) (vals []int) {
	for _, i := range which {
		list := d.in
		if i < 0 {
			i, list = ^i, d.out
		}
		v := absent
		if i < len(list) {
			v = list[i]
		}
		vals = append(vals, v)
	}
	return vals
}

// replaced is what a step reads for v: v itself, or its recomputed copy.
func (r *recomputing) replaced(v int) int {
	if v == absent || !r.dropped[r.root(v)] {
		return v
	}
	r.read[r.root(v)] = true
	return r.l.renamed(v, r.root(v), r.again(r.root(v)))
}

// again appends the steps that recompute a value, once.
func (r *recomputing) again(v int) int {
	if w, ok := r.made[v]; ok {
		return w
	}
	d := r.l.steps[r.maker[v]]
	again := r.substitute(&d)
	in := d.operands(again.In)
	for k, u := range in {
		if u != absent && r.l.vals[u].place == PlaceArena && r.gone(r.root(u)) {
			in[k] = r.l.renamed(u, r.root(u), r.again(r.root(u)))
		}
	}
	out := d.out[:1]
	if again.Op == d.op {
		out = d.out
	}
	copies := make([]int, len(out))
	for k, u := range out {
		if copies[k] = absent; u != absent {
			copies[k] = r.l.declare(r.l.vals[u].spec, PlaceArena, 0)
		}
	}
	r.l.steps = append(r.l.steps, draft{op: again.Op, layer: d.layer, attr: d.attr, in: in, out: copies, branch: d.branch, again: true})
	for k, u := range out {
		if u != absent {
			r.made[r.root(u)] = copies[k]
		}
	}
	return r.made[v]
}

// gone reports whether backward has to recompute a value to read it. Blocks read what cannot be
// recomputed, and what goes from one to the next, where it is.
func (r *recomputing) gone(v int) bool {
	if r.whole && (r.between[v] || !r.remade(v)) {
		return false
	}
	return r.dropped[v] || !r.kept(v)
}
