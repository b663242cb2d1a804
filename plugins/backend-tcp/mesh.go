package tcp

import (
	"github.com/trainctl/trainctl/core/contract"
	"github.com/trainctl/trainctl/core/sdk"
)

// mesh makes every host the owner of a chunk of the buffer. Chunks are scattered to
// their owners, reduced there in rank order if the collective reduces, and gathered by
// all hosts. Both use all connections and overlap: gathering follows scattering by a
// few segments. A host sends 2(n-1)/n of the buffer, as in a ring.
type mesh struct {
	b     *Backend
	c     *sdk.Collective
	cut   cut
	got   []int
	ready []bool // by segment of this host's chunk: it is finished
	root  int    // the root's host
}

// meshLag is how many segments the gathering is behind the scattering.
const meshLag = 2

func (w *mesh) start(b *Backend, c *sdk.Collective) *mesh {
	w.b, w.c, w.cut = b, c, b.cut(c.Buf, c.Op.Definition().Parts(b.group.WorldSize))
	if w.root = 0; c.Op.Definition().Rooted() {
		w.root = b.topology.host[c.Root]
	}
	w.got, w.ready = zeroed(w.got, w.cut.segments), zeroed(w.ready, w.cut.segments)
	if c.Op.Definition().Reduces {
		b.room(b.topology.hosts(), b.set.segment)
	}
	return w
}

// moves reports what one rank sends to another.
func (w *mesh) moves(from, to int) (scatter, gather bool) {
	d := w.c.Op.Definition()
	scatter = d.Slice != contract.SendersPart && d.Sends(from, w.root)
	gather = d.Slice != contract.ReceiversPart && d.Receives(to, w.root) && w.owns(from)
	return scatter, gather
}

// owns reports whether a rank has a chunk of the result to send: with whole
// buffers every rank owns one, else only ranks that send.
func (w *mesh) owns(peer int) bool {
	d := w.c.Op.Definition()
	return d.Slice == contract.Whole || d.Sends(peer, w.root)
}

func (w *mesh) frames(peer int) (out, in int) {
	me := w.b.topology.me
	return w.count(w.moves(me, peer)), w.count(w.moves(peer, me))
}

func (w *mesh) count(scatter, gather bool) (n int) {
	if scatter {
		n += w.cut.segments
	}
	if gather {
		n += w.cut.segments
	}
	return n
}

// frame returns which segment the i-th frame from one rank to another holds.
func (w *mesh) frame(from, to, i int) (gather bool, s int) {
	scatters, gathers := w.moves(from, to)
	if !scatters || !gathers {
		return gathers, i
	}
	return interleaved(i, w.cut.segments, meshLag)
}

// interleaved is the order of two transfers of n segments each, the second lag
// segments behind the first.
func interleaved(i, n, lag int) (second bool, s int) {
	lag = min(lag, n)
	switch both := 2 * (n - lag); {
	case i < lag:
		return false, i
	case i-lag >= both:
		return true, i - n
	case (i-lag)%2 == 0:
		return false, lag + (i-lag)/2
	default:
		return true, (i - lag) / 2
	}
}

func (w *mesh) out(peer, i int) ([]byte, bool) {
	me := w.b.topology.me
	gather, s := w.frame(me, peer, i)
	if !gather {
		return w.cut.segment(s, peer), true
	}
	return w.cut.segment(s, me), w.ready[s] || w.holds(me)
}

// holds reports whether a rank's chunk of the result is final from the start.
func (w *mesh) holds(peer int) bool {
	d := w.c.Op.Definition()
	return !d.Reduces && d.Sends(peer, w.root)
}

// in receives results in place: the rank that sends one has received this rank's
// contribution, so the bytes there are no longer needed.
func (w *mesh) in(peer, i int) ([]byte, bool) {
	gather, s := w.frame(peer, w.b.topology.me, i)
	switch mine := w.cut.segment(s, w.b.topology.me); {
	case gather:
		return w.cut.segment(s, peer), true
	case !w.c.Op.Definition().Reduces:
		return mine, true
	case s >= w.b.depth && !w.ready[s-w.b.depth]:
		return nil, false
	default:
		return w.b.slot(peer, s)[:len(mine)], true
	}
}

func (w *mesh) sent(int, int) {}

func (w *mesh) received(peer, i int) {
	gather, s := w.frame(peer, w.b.topology.me, i)
	if gather {
		return
	}
	w.got[s]++
	switch {
	case !w.c.Op.Definition().Reduces:
		w.ready[s] = true
	case w.got[s] == w.b.topology.hosts()-1:
		w.b.combine(w.cut.segment(s, w.b.topology.me), s)
		w.ready[s] = true
	}
}
