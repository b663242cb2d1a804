package plan

import (
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
// when neither is needed while the other is. It returns the arena's size and what backward has in it.
func (l *lowering) place() (size int, use arenaUse) {
	blocks := l.blocks()
	if l.opt.Fuse {
		blocks = l.shareInPlace(blocks)
	}
	return l.arrange(blocks), l.use(blocks)
}

// arenaUse is what backward has from forward, in bytes of values.
type arenaUse struct {
	kept  int // since forward
	again int // made again instead
}

func (l *lowering) use(blocks map[int]*block) (u arenaUse) {
	backward := l.firstBackward()
	for _, b := range blocks {
		if b.first < backward && b.last >= backward && b.root != l.vals[l.home[l.g.Stats()]].alias {
			u.kept += b.size
		}
	}
	for i := range l.steps {
		s := &l.steps[i]
		if !s.again {
			continue
		}
		made := s.out[0]
		if again := op.StepOf(s.op); again.Over0 { // a gradient, which makes it second
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
	use(l.home[l.g.Stats()], len(l.steps))
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
		if known.Over0 && len(s.out) > 1 {
			l.shareOutput(m, i, s.out[1], []int{0})
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

// arrange places the largest blocks first, each at the lowest offset that is
// free for as long as it lives.
func (l *lowering) arrange(m map[int]*block) (size int) {
	order := make([]*block, 0, len(m))
	for _, b := range m {
		order = append(order, b)
	}
	sort.Slice(order, func(i, j int) bool {
		a, b := order[i], order[j]
		if a.size != b.size {
			return a.size > b.size
		}
		return a.root < b.root
	})
	var placed []*block // by offset
	for _, b := range order {
		b.offset = 0
		for _, p := range placed {
			if p.last < b.first || b.last < p.first || b.offset+b.size <= p.offset {
				continue
			}
			b.offset = max(b.offset, p.offset+p.size)
		}
		at := sort.Search(len(placed), func(i int) bool { return placed[i].offset > b.offset })
		placed = append(placed, nil)
		copy(placed[at+1:], placed[at:])
		placed[at] = b
		l.vals[b.root].offset = b.offset
		size = max(size, b.offset+b.size)
	}
	return size
}
