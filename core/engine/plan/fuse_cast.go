package plan

import "github.com/trainctl/trainctl/core/engine/op"

// fuseCasts lets steps that convert half types themselves read what a cast reads, and write what
// a cast writes, if nothing else looks at what is in between.
func (l *lowering) fuseCasts() {
	for i := 0; i < len(l.steps); i++ {
		if l.opt.Converts(l.steps[i].op) {
			i -= l.fuseCastsInto(i)
			l.fuseCastBehind(i)
		}
	}
}

// fuseCastsInto leaves out casts of what step i reads, and returns how many.
func (l *lowering) fuseCastsInto(i int) (gone int) {
	for slot, v := range l.steps[i].in {
		if v == absent || len(l.readers(v)) != 1 || l.readTwice(&l.steps[i], slot) {
			continue
		}
		cast, ok := l.writer(v, op.Cast)
		if !ok || !l.widens(&l.steps[cast]) || l.steps[cast].branch != l.steps[i].branch {
			continue
		}
		l.steps[i].in[slot] = l.steps[cast].in[0]
		l.remove(cast)
		i--
		gone++
	}
	return gone
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
