package tcp

import "github.com/trainctl/trainctl/core/sdk"

// mesh gives every rank a chunk of the buffer to care for. Chunks are
// scattered to their owners, finished there, reduced in rank order if the
// collective reduces, and gathered by everyone. Both movements go over all
// connections and overlap: gathering follows scattering by a few segments. A rank
// sends 2(n-1)/n of the buffer, as in a ring.
type mesh struct {
	b     *Backend
	c     *sdk.Collective
	cut   cut
	got   []int
	ready []bool // by segment of this rank's chunk: it is finished
}

// meshLag is how many segments the results come behind the contributions.
const meshLag = 2

func (w *mesh) start(b *Backend, c *sdk.Collective) *mesh {
	w.b, w.c, w.cut = b, c, b.cut(c.Buf, b.parts(c.Op))
	w.got, w.ready = zeroed(w.got, w.cut.segments), zeroed(w.ready, w.cut.segments)
	if reduces(c.Op) {
		b.room(b.group.WorldSize, b.set.segment)
	}
	return w
}

// moves says which of the two movements leads from one rank to another.
func (w *mesh) moves(from, to int) (scatter, gather bool) {
	switch w.c.Op {
	case sdk.OpAllReduce:
		return true, true
	case sdk.OpReduceScatter:
		return true, false
	case sdk.OpAllGather:
		return false, true
	}
	// Broadcast: the root sends little more than the buffer once.
	return from == w.c.Root, to != w.c.Root
}

func (w *mesh) frames(rank int) (out, in int) {
	me := w.b.group.Rank
	return w.count(w.moves(me, rank)), w.count(w.moves(rank, me))
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

// frame says what the i-th frame from one rank to another is.
func (w *mesh) frame(from, to, i int) (gather bool, s int) {
	scatters, gathers := w.moves(from, to)
	if !scatters || !gathers {
		return gathers, i
	}
	return interleaved(i, w.cut.segments, meshLag)
}

// interleaved is the order of two movements of n segments each of which the
// second comes lag segments behind the first.
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

func (w *mesh) out(rank, i int) ([]byte, bool) {
	me := w.b.group.Rank
	gather, s := w.frame(me, rank, i)
	if !gather {
		return w.cut.segment(s, rank), true
	}
	return w.cut.segment(s, me), w.ready[s] || w.c.Op == sdk.OpAllGather || w.c.Op == sdk.OpBroadcast && w.c.Root == me
}

// in takes results where they belong: the rank that sends one has got this
// rank's contribution, so the bytes there have gone.
func (w *mesh) in(rank, i int) ([]byte, bool) {
	gather, s := w.frame(rank, w.b.group.Rank, i)
	switch mine := w.cut.segment(s, w.b.group.Rank); {
	case gather:
		return w.cut.segment(s, rank), true
	case !reduces(w.c.Op):
		return mine, true
	case s >= w.b.depth && !w.ready[s-w.b.depth]:
		return nil, false
	default:
		return w.b.slot(rank, s)[:len(mine)], true
	}
}

func (w *mesh) sent(int, int) {}

func (w *mesh) received(rank, i int) {
	gather, s := w.frame(rank, w.b.group.Rank, i)
	if gather {
		return
	}
	w.got[s]++
	switch {
	case !reduces(w.c.Op):
		w.ready[s] = true
	case w.got[s] == w.b.group.WorldSize-1:
		w.b.combine(w.cut.segment(s, w.b.group.Rank), s)
		w.ready[s] = true
	}
}
