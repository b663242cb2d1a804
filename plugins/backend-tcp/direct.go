package tcp

// direct is the all-reduce in one round: every host sends the whole buffer to
// every other and reduces for itself, in order. It moves n-1 times the
// buffer; with two ranks that is as much as with every other algorithm, in fewer rounds.
type direct struct {
	b     *Backend
	buf   []byte
	n     int // segments
	got   []int
	gone  []int
	ready []bool // by segment: it is the result
}

func (w *direct) start(b *Backend, buf []byte) *direct {
	n := ceilDiv(len(buf), b.set.segment)
	w.b, w.buf, w.n = b, buf, n
	w.got, w.gone, w.ready = zeroed(w.got, n), zeroed(w.gone, n), zeroed(w.ready, n)
	b.room(b.topology.hosts(), b.set.segment)
	return w
}

func (w *direct) segment(s int) []byte { return piece(w.buf, s, w.b.set.segment) }

func (w *direct) frames(int) (out, in int) { return w.n, w.n }

func (w *direct) out(_, s int) ([]byte, bool) { return w.segment(s), true }

func (w *direct) in(host, s int) ([]byte, bool) {
	if s >= w.b.depth && !w.ready[s-w.b.depth] {
		return nil, false
	}
	return w.b.slot(host, s)[:len(w.segment(s))], true
}

func (w *direct) sent(_, s int)     { w.gone[s]++; w.combine(s) }
func (w *direct) received(_, s int) { w.got[s]++; w.combine(s) }

// combine reduces a segment after it was received from all ranks and sent to all
// ranks, because the result replaces it.
func (w *direct) combine(s int) {
	if others := w.b.topology.hosts() - 1; w.got[s] == others && w.gone[s] == others {
		w.b.combine(w.segment(s), s)
		w.ready[s] = true
	}
}
