package plan

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"sort"

	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/tensor"
)

// align is the boundary on which every value starts: a cache line, and the
// width of the widest vector register.
const align = 64

// block is the memory that one or more values use one after the other.
type block struct {
	root        int // the value it is named after
	first, last int // steps between which it is in use
	size        int
	offset      int
}

// place gives every arena value an offset, by lifetime: two values share memory
// when neither is needed while the other is. It returns the arena and what backward has in it.
func (l *lowering) place() (arena, arenaUse) {
	blocks := l.blocks()
	if l.opt.Fuse {
		blocks = l.shareInPlace(blocks)
	}
	return l.arrange(blocks), l.use(blocks)
}

// arenaUse is how many bytes of values backward reads from forward.
type arenaUse struct {
	kept  int // since forward
	again int // recomputed instead
}

func (l *lowering) use(blocks map[int]*block) (u arenaUse) {
	backward := l.firstBackward()
	for _, b := range blocks {
		if b.first < backward && b.last >= backward && !l.reports(b.root) {
			u.kept += b.size
		}
	}
	for i := range l.steps {
		s := &l.steps[i]
		if !s.again {
			continue
		}
		made := s.out[0]
		if over := op.StepOf(s.op).Over; len(over) > 0 { // a gradient, which makes it second
			made = s.out[1]
		}
		u.again += tensor.RoundUp(l.vals[made].spec.Bytes(), align)
	}
	return u
}

// blocks finds each arena value's first and last step. What the loss reports
// lives until after the last.
func (l *lowering) blocks() map[int]*block {
	m := map[int]*block{}
	use := func(v, step int) {
		if v == absent || l.vals[l.vals[v].alias].place != PlaceArena {
			return
		}
		root := l.vals[v].alias
		if m[root] == nil {
			m[root] = &block{root: root, first: step, size: tensor.RoundUp(l.vals[root].spec.Bytes(), align)}
		}
		m[root].last = step
	}
	for i := range l.steps {
		for _, v := range l.steps[i].in {
			use(v, i)
		}
		for _, v := range l.steps[i].out {
			use(v, i)
		}
	}
	use(l.home[l.g.Stats()], len(l.steps)) // absent without a loss
	return m
}

// shareInPlace lets a step's outputs take the memory of inputs that end there.
func (l *lowering) shareInPlace(m map[int]*block) map[int]*block {
	for i := range l.steps {
		s, known := &l.steps[i], op.StepOf(l.steps[i].op)
		if known.EvalInPlace && l.opt.Train {
			continue
		}
		l.shareOutput(m, i, s.out[0], known.InPlace)
		for _, over := range known.Over {
			if out, in := over[0], over[1]; out < len(s.out) {
				l.shareOutput(m, i, s.out[out], []int{in})
			}
		}
	}
	return m
}

// shareOutput lets an output of step i take the memory of the first of some inputs that allows it.
func (l *lowering) shareOutput(m map[int]*block, i, v int, slots []int) {
	if v == absent {
		return
	}
	s, out := &l.steps[i], m[l.vals[v].alias]
	if out == nil || out.first != i {
		return
	}
	for _, slot := range slots {
		if slot >= len(s.in) || s.in[slot] == absent {
			continue
		}
		in := m[l.vals[s.in[slot]].alias]
		if in == nil || in == out || in.last != i || in.size != out.size || l.readTwice(s, slot) {
			continue
		}
		l.merge(m, in, out)
		return
	}
}

// readTwice reports whether the step reads the memory of input slot under another name too.
func (l *lowering) readTwice(s *draft, slot int) bool {
	for i, v := range s.in {
		if i != slot && v != absent && l.vals[v].alias == l.vals[s.in[slot]].alias {
			return true
		}
	}
	return false
}

func (l *lowering) merge(m map[int]*block, into, from *block) {
	into.last = from.last
	for v := range l.vals {
		if l.vals[v].alias == from.root {
			l.vals[v].alias = into.root
		}
	}
	delete(m, from.root)
}

// arena is the memory of the values that live between a plan's steps.
type arena struct {
	size   int
	placed []*block // by offset
	fixed  bool     // they stay where they are
}

// free is the lowest offset at which size bytes are free from one step to another.
func (a *arena) free(first, last, size int) (offset int) {
	for _, p := range a.placed {
		if p.last < first || last < p.first || offset+size <= p.offset {
			continue
		}
		offset = max(offset, p.offset+p.size)
	}
	return offset
}

// arrange places blocks, and values where theirs are.
func (l *lowering) arrange(m map[int]*block) arena {
	a := packBlocks(slices.Collect(maps.Values(m)))
	for _, b := range a.placed {
		l.vals[b.root].offset = b.offset
	}
	return a
}

// largest orders blocks by size.
func largest(a, b *block) int { return cmp.Or(b.size-a.size, a.root-b.root) }

// lasting orders blocks by size times the steps that they live for: better where a few
// steps need much for themselves.
func lasting(a, b *block) int {
	return cmp.Or(b.size*(b.last-b.first+1)-a.size*(a.last-a.first+1), largest(a, b))
}

// rounds is how often packBlocks tries each order again.
const rounds = 8

// packBlocks places blocks as tightly as a few attempts do: in either order, and again with the
// block that reached highest placed first, since it came too late to find room below. What blocks have
// been given before is forgotten.
func packBlocks(blocks []*block) arena {
	var best []*block
	least, busiest := math.MaxInt, busiest(blocks)
	for _, order := range []func(a, b *block) int{largest, lasting} {
		slices.SortFunc(blocks, order)
		for range rounds {
			a := placeBlocks(blocks)
			if a.size < least {
				least, best = a.size, slices.Clone(blocks)
			}
			if least <= busiest {
				return placeBlocks(best)
			}
			top := slices.IndexFunc(blocks, func(b *block) bool { return b.offset+b.size == a.size })
			first := blocks[top]
			copy(blocks[1:], blocks[:top])
			blocks[0] = first
		}
	}
	return placeBlocks(best)
}

// busiest is how many bytes live in the step that needs most.
func busiest(blocks []*block) (most int) {
	change := map[int]int{}
	for _, b := range blocks {
		change[b.first] += b.size
		change[b.last+1] -= b.size
	}
	live := 0
	for _, step := range slices.Sorted(maps.Keys(change)) {
		live += change[step]
		most = max(most, live)
	}
	return most
}

// placeBlocks gives each block the lowest offset that is free for as long as it lives, one after the other.
func placeBlocks(blocks []*block) (a arena) {
	for _, b := range blocks {
		b.offset = a.free(b.first, b.last, b.size)
		at := sort.Search(len(a.placed), func(i int) bool { return a.placed[i].offset > b.offset })
		a.placed = slices.Insert(a.placed, at, b)
		a.size = max(a.size, b.offset+b.size)
	}
	return a
}

// Packing is an arena that also has the workspaces of a device's steps.
type Packing struct {
	Steps []Step  // with their operands' offsets in this arena
	Stats Operand // where the loss reports
	Work  []int   // offset of each step's workspace
	Size  int
}

// Pack finds memory in the arena for the workspace of each step, which needs so many bytes:
// where no value lives during the step. Either the values stay where they are and the
// arena grows if they leave too little room, or all are placed anew, whichever takes less. steps
// are the plan's, as a device runs them.
func (p *Plan) Pack(steps []Step, need func(i int) int) Packing {
	work := p.workBlocks(need)
	beside := Packing{Steps: steps, Stats: p.stats, Size: p.arena.size}
	beside.Work = offsetsOf(len(steps), work, func(w *block) int {
		at := p.arena.free(w.first, w.last, w.size)
		beside.Size = max(beside.Size, at+w.size)
		return at
	})
	if p.arena.fixed {
		return beside
	}
	moved := make(map[*block]*block, len(p.arena.placed)) // from where they are
	all := slices.Clone(work)
	for _, b := range p.arena.placed {
		copied := *b
		moved[b], all = &copied, append(all, &copied)
	}
	size := packBlocks(all).size
	if size >= beside.Size {
		return beside
	}
	packed := Packing{Size: size, Stats: p.move(p.stats, len(steps), moved)}
	packed.Work = offsetsOf(len(steps), work, func(w *block) int { return w.offset })
	for i, s := range steps {
		s.In, s.Out = p.moveAll(s.In, i, moved), p.moveAll(s.Out, i, moved)
		packed.Steps = append(packed.Steps, s)
	}
	return packed
}

// workRoot is above the number of any value: workspaces sort behind values of their size.
const workRoot = 1 << 30

// workBlocks are the workspaces of the steps that need one.
func (p *Plan) workBlocks(need func(i int) int) (work []*block) {
	for i := range p.steps {
		if n := need(i); n > 0 {
			work = append(work, &block{root: workRoot + i, first: i, last: i, size: tensor.RoundUp(n, align)})
		}
	}
	return work
}

// offsetsOf lists the offsets of workspaces by step, 0 where there is none.
func offsetsOf(steps int, work []*block, at func(*block) int) []int {
	offsets := make([]int, steps)
	for _, w := range work {
		offsets[w.first] = at(w)
	}
	return offsets
}

// moveAll is move for all operands of a step.
func (p *Plan) moveAll(list []Operand, step int, moved map[*block]*block) []Operand {
	out := make([]Operand, len(list))
	for i := range list {
		out[i] = p.move(list[i], step, moved)
	}
	return out
}

// move is an operand of a step at its offset among moved blocks.
func (p *Plan) move(o Operand, step int, moved map[*block]*block) Operand {
	if o.Place != PlaceArena {
		return o
	}
	for _, b := range p.arena.placed {
		if b.first <= step && step <= b.last && b.offset <= o.Offset && o.Offset+o.Spec.Bytes() <= b.offset+b.size {
			o.Offset += moved[b].offset - b.offset
			return o
		}
	}
	panic("plan: an operand lies in no block")
}
