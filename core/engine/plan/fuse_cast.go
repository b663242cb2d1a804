package plan

import (
	"slices"

	"github.com/trainctl/trainctl/core/engine/op"
)

// fuseCasts lets steps that convert half types themselves read what a cast reads, and write what
// a cast writes, if nothing else looks at what is in between.
func (l *lowering) fuseCasts() {
	if l.opt.Converts == nil || !l.opt.Fuse {
		return
	}
	for i := 0; i < len(l.steps); i++ {
		if l.opt.Converts(l.steps[i].op) {
			i -= l.fuseCastsInto(i)
			l.fuseCastBehind(i)
		}
	}
}

// fuseCastsInto leaves out casts of what step i reads, and returns how many.
func (l *lowering) fuseCastsInto(i int) (gone int) {
	for _, v := range l.steps[i].in {
		if v == absent {
			continue
		}
		cast, ok := l.writer(v, op.Cast)
		if !ok || !l.widens(&l.steps[cast]) {
			continue
		}
		readers := l.readers(v)
		if l.wantSlope(readers) || slices.ContainsFunc(readers, func(r int) bool { return !l.convertsInput(r, v) || l.steps[r].branch != l.steps[cast].branch }) {
			continue
		}
		for _, r := range readers {
			l.steps[r].in[slices.Index(l.steps[r].in, v)] = l.steps[cast].in[0]
		}
		l.remove(cast)
		i--
		gone++
	}
	return gone
}

// convertsInput reports whether step i converts what it reads as v, and reads that once.
func (l *lowering) convertsInput(i, v int) bool {
	slot := slices.Index(l.steps[i].in, v)
	return slot >= 0 && l.opt.Converts(l.steps[i].op) && !l.readTwice(&l.steps[i], slot)
}

// wantSlope reports whether steps are a function and its gradient that keep the slope in place of
// what they read, which takes float32.
func (l *lowering) wantSlope(steps []int) bool {
	f := l.steps[steps[0]].op
	return op.Of(f).Pointwise.Slope && slices.ContainsFunc(steps[1:], func(g int) bool { return l.steps[g].op == op.GradOp(f) })
}

// widens reports whether a cast gives an activation of a half type in a wider one.
func (l *lowering) widens(cast *draft) bool {
	from, to := &l.vals[cast.in[0]], &l.vals[cast.out[0]]
	return from.place == PlaceArena && from.spec.DType.Half() && !to.spec.DType.Half()
}

// fuseCastBehind leaves out the cast of what step i writes to a half type.
func (l *lowering) fuseCastBehind(i int) {
	s := &l.steps[i]
	out := s.out[0]
	if out == absent || l.vals[out].place != PlaceArena || l.vals[out].spec.DType.Half() {
		return
	}
	cast, ok := l.onlyReader(out, op.Cast)
	if !ok || !l.vals[l.steps[cast].out[0]].spec.DType.Half() || l.steps[cast].branch != s.branch {
		return
	}
	s.out[0] = l.steps[cast].out[0]
	l.remove(cast)
}
