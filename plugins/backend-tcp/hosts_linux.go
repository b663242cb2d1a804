package tcp

import (
	"github.com/trainctl/trainctl/core/sdk"
)

// runHosts reduces over several hosts with several ranks each. The i-th rank
// of every host owns the i-th slice of the buffer. Sums travel from owner to
// owner along the hosts: each adds its host's contributions, rank by rank,
// reading the other ranks' memory, and the last one's result travels back.
//
// So the elements are combined in rank order as everywhere else, with the same
// bits, and between two hosts the buffer passes once in each direction, both
// at the same time, whatever the number of ranks.
func (b *Backend) runHosts(c *sdk.Collective) error {
	if err := b.agree(&exchange{}); err != nil {
		return err
	}
	b.op.calls[b.group.Rank] = b.op.call
	for _, k := range b.op.calls {
		if !k.shared {
			x := b.segmentedExchange(c)
			return b.trade(&x)
		}
	}
	k, err := b.newChain(c)
	if err != nil {
		return err
	}
	if err := b.both(k.send, k.receive); err != nil {
		return err
	}
	b.local.turn++
	return b.local.meet(2*b.local.turn + 1)
}

// chainLag is how many segments the results come behind the sums.
const chainLag = 2

// chain is an owner's part in one all-reduce along the hosts.
type chain struct {
	b          *Backend
	prev, next *peer    // the slice's owners on the neighbour hosts, nil at the ends
	bufs       [][]byte // the slice in the buffers of this host's ranks
	srcs       [][]byte
	segments   int
	ready      chan hop
	gone       chan struct{} // a token for each sum sent on
}

// hop is a segment that can go to a neighbour.
type hop struct {
	to *peer
	s  int
}

func (b *Backend) newChain(c *sdk.Collective) (*chain, error) {
	n := b.topology.perHost
	me, first := b.group.Rank, b.group.Rank/n*n
	size := len(c.Buf)
	slice := roundUp(ceilDiv(size, n), line)
	from := min((me-first)*slice, size)
	to := min(from+slice, size)
	k := &chain{b: b, segments: ceilDiv(to-from, b.set.segment)}
	for r := first; r < first+n; r++ {
		buf, err := b.local.buffer(r, b.op.calls[r], size)
		if err != nil {
			return nil, err
		}
		k.bufs = append(k.bufs, buf[from:to])
	}
	if me >= n {
		k.prev = b.peers[me-n]
	}
	if me+n < b.group.WorldSize {
		k.next = b.peers[me+n]
	}
	k.ready, k.gone = make(chan hop, 2*k.segments), make(chan struct{}, k.segments)
	return k, nil
}

// segment is the s-th piece of a buffer's slice.
func (k *chain) segment(buf []byte, s int) []byte {
	from := s * k.b.set.segment
	return buf[from:min(from+k.b.set.segment, len(buf))]
}

// send passes on what receive has finished.
func (k *chain) send() error {
	hops := 0
	for _, p := range []*peer{k.prev, k.next} {
		if p != nil {
			hops += k.segments
		}
	}
	for range hops {
		select {
		case h := <-k.ready:
			if err := k.b.write(h.to, kindData, nil, k.segment(k.bufs[0], h.s)); err != nil {
				return err
			}
			if h.to == k.next {
				k.gone <- struct{}{}
			}
		case <-k.b.op.quit:
			return errQuit
		}
	}
	return nil
}

// receive takes sums from one side and results from the other. A sum lies
// where its result comes to lie: that does not come before the sum has gone.
func (k *chain) receive() error {
	for s := range k.segments + chainLag {
		if s < k.segments {
			if err := k.add(s); err != nil {
				return err
			}
		}
		if back := s - chainLag; back >= 0 && k.next != nil {
			if err := k.b.await(k.gone); err != nil {
				return err
			}
			if err := k.b.readData(k.next, k.segment(k.bufs[0], back)); err != nil {
				return err
			}
			k.finish(back)
		}
	}
	return nil
}

// add brings this host's contributions into a segment.
func (k *chain) add(s int) error {
	b, into := k.b, k.segment(k.bufs[0], s)
	k.srcs = k.srcs[:0]
	if k.prev != nil {
		sum := b.slots(b.set.segment)(0)[:len(into)]
		if err := b.readData(k.prev, sum); err != nil {
			return err
		}
		k.srcs = append(k.srcs, sum)
	}
	for _, buf := range k.bufs {
		k.srcs = append(k.srcs, k.segment(buf, s))
	}
	c := b.op.c
	if k.next == nil {
		reduceOf(c.Reduce, c.DType, into, k.srcs, b.group.WorldSize)
		k.finish(s)
		return nil
	}
	op := c.Reduce
	if op == sdk.Avg { // the last host divides
		op = sdk.Sum
	}
	reduceN(op, c.DType, into, k.srcs)
	k.ready <- hop{k.next, s}
	return nil
}

// finish gives a result to this host's ranks and to the host before.
func (k *chain) finish(s int) {
	for _, buf := range k.bufs[1:] {
		copy(k.segment(buf, s), k.segment(k.bufs[0], s))
	}
	if k.prev != nil {
		k.ready <- hop{k.prev, s}
	}
}

// buffer is the memory of rank's call in this process's mapping.
func (l *local) buffer(rank int, k call, size int) ([]byte, error) {
	mem := l.arenas[rank][k.arena]
	if k.offset > uint64(len(mem)) || uint64(size) > uint64(len(mem))-k.offset {
		return nil, l.b.peerError(rank, "its buffer lies outside its arena")
	}
	return mem[k.offset:][:size], nil
}
