package tcp

// ring is the all-reduce along a circle of ranks (Patarasu and Yuan, Bandwidth optimal all-reduce
// algorithms for clusters of workstations, 2009). In each of n-1 steps a rank sends a chunk to the
// next rank and adds what comes from the one before; in n-1 more steps the finished chunks are
// passed round. Each segment is passed on as soon as it has arrived, so all connections are always
// busy.
//
// The sum of a chunk starts at the rank after its owner: the same order in every run,
// but not rank order.
type ring struct {
	b          *Backend
	cut        cut
	next, prev int
	done       []bool // by frame from prev
}

func (w *ring) start(b *Backend, buf []byte) *ring {
	n, me := b.topology.hosts(), b.topology.me
	w.b, w.cut, w.next, w.prev = b, b.cut(buf, 1), (me+1)%n, (me+n-1)%n
	w.done = zeroed(w.done, w.count())
	b.room(1, b.set.segment)
	return w
}

func (w *ring) count() int { return 2 * (w.b.topology.hosts() - 1) * w.cut.segments }

func (w *ring) frames(peer int) (out, in int) {
	if peer == w.next {
		out = w.count()
	}
	if peer == w.prev {
		in = w.count()
	}
	return out, in
}

// segment returns the i-th frame that a rank sends: in step t the chunk t places
// behind its own.
func (w *ring) segment(peer, i int) []byte {
	n, t := w.b.topology.hosts(), i/w.cut.segments
	return w.cut.segment(i%w.cut.segments, (peer+2*n-t)%n)
}

// reducing reports whether the i-th frame is a partial sum.
func (w *ring) reducing(i int) bool { return i < w.count()/2 }

func (w *ring) out(_, i int) ([]byte, bool) {
	return w.segment(w.b.topology.me, i), i < w.cut.segments || w.done[i-w.cut.segments]
}

func (w *ring) in(_, i int) ([]byte, bool) {
	mine := w.segment(w.prev, i)
	if w.reducing(i) {
		return w.b.slot(0, i)[:len(mine)], true
	}
	return mine, true
}

func (w *ring) sent(int, int) {}

func (w *ring) received(_, i int) {
	if w.reducing(i) {
		mine := w.segment(w.prev, i)
		last := i >= w.count()/2-w.cut.segments
		w.b.merge(mine, w.b.slot(0, i)[:len(mine)], w.prev, last)
	}
	w.done[i] = true
}
