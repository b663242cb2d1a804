//go:build !portable

package tcp

import (
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/tensor"
	"github.com/trainctl/trainctl/plugins/internal/reduce"
)

// runHosts reduces over several hosts with several ranks each. The i-th rank
// of every host owns the i-th slice of the buffer. Sums are sent from owner to
// owner, from host to host: each adds its host's contributions, rank by rank,
// reading the other ranks' memory, and the last owner's result is sent back.
//
// So elements are combined in rank order as everywhere else, with bit-identical results, and each
// link carries the buffer once in each direction, both at the same time, for any number of ranks.
func (b *Backend) runHosts(c *sdk.Collective) error {
	if err := b.drive(noPayload{}); err != nil {
		return err
	}
	b.op.calls[b.group.Rank] = b.op.call
	for _, k := range b.op.calls {
		if !k.shared {
			return b.exchangePayload(c)
		}
	}
	b.op.met = true
	w := &b.algorithms.chain
	if err := w.start(b, len(c.Buf)); err != nil {
		return err
	}
	if err := b.drive(w); err != nil {
		return err
	}
	b.local.round++
	return b.local.barrier(2*b.local.round + 1)
}

// chain is an owner's part in one all-reduce over several hosts.
type chain struct {
	b          *Backend
	prev, next int      // the slice's owners on the neighbour hosts, -1 at the ends
	bufs       [][]byte // the slice in the buffers of this host's ranks
	srcs       [][]byte
	segments   int
	summed     []bool // by segment: it includes this host's contributions
	done       []bool // by segment: it is the result
}

func (w *chain) start(b *Backend, size int) error {
	n := b.topology.perHost
	me, first := b.group.Rank, b.group.Rank/n*n
	slice := tensor.RoundUp(ceilDiv(size, n), line)
	from := min((me-first)*slice, size)
	to := min(from+slice, size)
	w.b, w.segments, w.prev, w.next = b, ceilDiv(to-from, b.set.segment), -1, -1
	w.bufs = w.bufs[:0]
	for r := first; r < first+n; r++ {
		buf, err := b.local.buffer(r, b.op.calls[r], size)
		if err != nil {
			return err
		}
		w.bufs = append(w.bufs, buf[from:to])
	}
	if me >= n {
		w.prev = me - n
	}
	if me+n < b.group.WorldSize {
		w.next = me + n
	}
	w.summed, w.done = zeroed(w.summed, w.segments), zeroed(w.done, w.segments)
	b.room(1, b.set.segment)
	return nil
}

// segment returns the s-th piece of the slice, in the buffer of the host's first
// rank, where it is reduced.
func (w *chain) segment(s int) []byte { return piece(w.bufs[0], s, w.b.set.segment) }

func (w *chain) frames(rank int) (out, in int) {
	if rank == w.prev || rank == w.next {
		return w.segments, w.segments
	}
	return 0, 0
}

// out sends sums to the next host and results to the previous one. The first host
// computes a sum when it can be sent.
func (w *chain) out(rank, s int) ([]byte, bool) {
	if rank == w.next {
		if w.prev < 0 && !w.summed[s] {
			w.add(s)
		}
		return w.segment(s), w.summed[s]
	}
	return w.segment(s), w.done[s]
}

// in receives a result in place of its sum, which was sent before.
func (w *chain) in(rank, s int) ([]byte, bool) {
	if rank == w.next {
		return w.segment(s), true
	}
	return w.b.slot(0, s)[:len(w.segment(s))], true
}

func (w *chain) sent(int, int) {}

func (w *chain) received(rank, s int) {
	if rank == w.prev {
		w.add(s)
	} else {
		w.finish(s)
	}
}

// add adds this host's contributions to a segment.
func (w *chain) add(s int) {
	b, into := w.b, w.segment(s)
	w.srcs = w.srcs[:0]
	if w.prev >= 0 {
		w.srcs = append(w.srcs, b.slot(0, s)[:len(into)])
	}
	for _, buf := range w.bufs {
		w.srcs = append(w.srcs, piece(buf, s, b.set.segment))
	}
	c := b.op.c
	w.summed[s] = true
	if w.next < 0 {
		reduce.Of(c.Reduce, c.DType, into, w.srcs, b.group.WorldSize)
		w.finish(s)
		return
	}
	op := c.Reduce
	if op == sdk.Avg { // the last host divides
		op = sdk.Sum
	}
	reduce.All(op, c.DType, into, w.srcs)
}

// finish copies a result to this host's ranks; out sends it to the previous host.
func (w *chain) finish(s int) {
	for _, buf := range w.bufs[1:] {
		copy(piece(buf, s, w.b.set.segment), w.segment(s))
	}
	w.done[s] = true
}

// buffer returns the memory of a rank's call in this process's mapping.
func (l *local) buffer(rank int, k call, size int) ([]byte, error) {
	mem := l.arenas[rank][k.arena]
	if k.offset > uint64(len(mem)) || uint64(size) > uint64(len(mem))-k.offset {
		return nil, l.b.peerError(rank, "its buffer lies outside its arena")
	}
	return mem[k.offset:][:size], nil
}
