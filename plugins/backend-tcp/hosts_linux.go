//go:build !portable

package tcp

import (
	"context"

	"github.com/trainctl/trainctl/core/contract"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/tensor"
	"github.com/trainctl/trainctl/plugins/internal/reduce"
)

// How a collective moves data between hosts. Leaders agree on it, because a host does not know
// which buffers are shared on another.
const (
	pathShared  = 1 + iota // from and to the ranks' buffers
	pathWindows            // through the stages: some buffer is not shared
)

// runHosts runs a collective over several hosts of which some have several ranks. The ranks of a
// host compare their calls, then the leaders compare theirs.
func (b *Backend) runHosts(c *sdk.Collective) error {
	l, small := b.local, b.small(c)
	if err := l.announce(c, small); err != nil {
		return err
	}
	if small {
		return b.trade(c)
	}
	if b.leads() {
		path, err := b.agreeOnPath()
		if err != nil {
			return err
		}
		l.pages[b.group.Rank].path().Store(path)
	}
	if err := l.barrier(); err != nil {
		return err
	}
	if l.pages[b.topology.leader()].path().Load() == pathWindows {
		return l.inWindows(c, b.trade)
	}
	if err := l.resolve(len(c.Buf)); err != nil {
		return err
	}
	b.op.met = true
	switch {
	case !c.Op.Definition().Reduces:
		return b.copyBetweenHosts(c)
	case b.partial(c):
		return b.reducePartial(c)
	}
	return b.reduceInChain(c)
}

// agreeOnPath compares the call with those of the other leaders.
func (b *Backend) agreeOnPath() (path uint32, err error) {
	b.useLeaders()
	b.op.call.shared = b.local.allShared()
	if err := b.drive(noPayload{}); err != nil {
		return 0, err
	}
	shared := b.op.call.shared
	for _, l := range b.links {
		shared = shared && (l.at < 0 || b.op.calls[l.rank].shared)
	}
	if shared {
		return pathShared, nil
	}
	return pathWindows, nil
}

// trade runs a small collective whose contributions are in the stages: leaders send each other
// those of all ranks of their hosts, so that each can combine them in rank order.
func (b *Backend) trade(c *sdk.Collective) error {
	l := b.local
	if b.leads() {
		size := l.pack(c)
		if err := b.tradeParcels(&l.parcel, size); err != nil {
			return err
		}
		if c.Op != sdk.OpBarrier && c.Count > 0 {
			l.unpack(c)
			l.finishTrade(c)
		}
	}
	if err := l.barrier(); err != nil {
		return err
	}
	l.fetch(c)
	return nil
}

// pack fills this host's parcel, and returns the size of the largest.
func (l *local) pack(c *sdk.Collective) (most int) {
	t, d, p := &l.b.topology, c.Op.Definition(), &l.parcel
	size := contributed(c, len(t.host))
	p.sizes, p.wants = zeroed(p.sizes, t.hosts()), zeroed(p.wants, t.hosts())
	if n := t.size(t.me) * size; cap(p.mine) < n {
		p.mine = tensor.Aligned(n)
	}
	p.mine = p.mine[:0]
	for r, h := range t.host {
		p.wants[h] = p.wants[h] || d.Receives(r, c.Root)
		if !d.Sends(r, c.Root) {
			continue
		}
		p.sizes[h] += size
		most = max(most, p.sizes[h])
		if h == t.me {
			p.mine = append(p.mine, l.pages[r].stage(l.round)[:size]...)
		}
	}
	return most
}

// unpack finds the contributions of all ranks in the parcels. A host that receives no results
// has those of its own ranks alone.
func (l *local) unpack(c *sdk.Collective) {
	t, d := &l.b.topology, c.Op.Definition()
	size := contributed(c, len(t.host))
	next := 0
	for r, h := range t.host {
		if l.tiles[r] = nil; t.first[h] == r {
			next = 0
		}
		if !d.Sends(r, c.Root) || h != t.me && !l.parcel.wants[t.me] {
			continue
		}
		from := l.parcel.mine
		if h != t.me {
			from = l.b.slot(h, 0)
		}
		l.tiles[r] = from[next:][:size]
		next += size
	}
}

// finishTrade writes the results for this host's ranks to the leader's stage, where they are in
// their buffers.
func (l *local) finishTrade(c *sdk.Collective) {
	b, d := l.b, c.Op.Definition()
	if !l.parcel.wants[b.topology.me] {
		return
	}
	into, part := l.pages[b.group.Rank].stage(l.round), c.Count*c.DType.Size()
	switch {
	case !d.Reduces && d.Slice == contract.Whole:
		copy(into, l.tiles[c.Root])
	case !d.Reduces:
		for r, tile := range l.tiles {
			copy(into[r*part:], tile)
		}
	case d.Slice == contract.Whole:
		reduce.All(c.Reduce, c.DType, into[:part], l.tiles)
	default:
		for r, end := b.topology.local(); r < end; r++ {
			for q, tile := range l.tiles {
				b.srcs[q] = tile[r*part:][:part]
			}
			reduce.All(c.Reduce, c.DType, into[r*part:][:part], b.srcs)
		}
	}
}

// fetch copies this rank's results from the leader's stage.
func (l *local) fetch(c *sdk.Collective) {
	d, me := c.Op.Definition(), l.b.group.Rank
	if !d.Receives(me, c.Root) {
		return
	}
	from, to := l.pages[l.b.topology.leader()].stage(l.round)[:len(c.Buf)], c.Buf
	if d.Slice == contract.ReceiversPart {
		part := c.Count * c.DType.Size()
		from, to = from[me*part:][:part], to[me*part:][:part]
	}
	copy(to, from)
}

// copyBetweenHosts runs a collective that does not reduce: leaders gather what the ranks of their
// hosts provide, exchange it, and all ranks copy the result from their leader's buffer.
func (b *Backend) copyBetweenHosts(c *sdk.Collective) error {
	l, d, t := b.local, c.Op.Definition(), &b.topology
	part := c.Count * c.DType.Size()
	if b.leads() {
		for r, end := t.local(); r < end; r++ {
			switch {
			case r == t.rank || !d.Sends(r, c.Root):
			case d.Slice == contract.SendersPart:
				copy(c.Buf[r*part:][:part], l.bufs[r][r*part:])
			default:
				copy(c.Buf, l.bufs[r])
			}
		}
		b.useLeaders()
		if err := b.drive(b.algorithms.mesh.start(b, c)); err != nil {
			return err
		}
	}
	if err := l.barrier(); err != nil {
		return err
	}
	if from := l.bufs[t.leader()]; !b.leads() && d.Receives(t.rank, c.Root) {
		if d.Slice == contract.SendersPart {
			copy(c.Buf[:t.rank*part], from)
			copy(c.Buf[(t.rank+1)*part:], from[(t.rank+1)*part:])
		} else {
			copy(c.Buf, from)
		}
	}
	return l.barrier()
}

// reducePartial runs an all-reduce in an order other than that of the ranks: each host adds up its
// ranks' contributions in its leader's buffer, and leaders reduce the sums.
func (b *Backend) reducePartial(c *sdk.Collective) error {
	l, t := b.local, &b.topology
	first, end := t.local()
	chunk := tensor.RoundUp(ceilDiv(len(c.Buf), end-first), line)
	op := c.Reduce
	if op == sdk.Avg { // the last reduction between hosts divides
		op = sdk.Sum
	}
	tiles := l.tiles[:end-first]
	for from, to := (t.rank-first)*chunk, min((t.rank-first+1)*chunk, len(c.Buf)); from < to; from += tileSize {
		for i := range tiles {
			tiles[i] = l.bufs[first+i][from:min(from+tileSize, to)]
		}
		reduce.All(op, c.DType, tiles[0], tiles)
	}
	if err := l.barrier(); err != nil {
		return err
	}
	if b.leads() {
		b.useLeaders()
		if err := b.drive(b.choose(c)); err != nil {
			return err
		}
	}
	if err := l.barrier(); err != nil {
		return err
	}
	if !b.leads() {
		copy(c.Buf, l.bufs[first])
	}
	return l.barrier()
}

// reduceInChain reduces in rank order. The i-th ranks of all hosts own the i-th slice of the buffer.
// Sums are sent from owner to owner, from host to host: each adds its host's
// contributions, rank by rank, reading the other ranks' memory, and the last owner's result is sent
// back to the hosts that need it.
//
// So elements are combined in rank order as everywhere else, with bit-identical results, and each
// link carries the buffer at most once in each direction, both at the same time, for any number of
// ranks. Sums of half types travel as float32, twice the bytes, to be rounded once.
func (b *Backend) reduceInChain(c *sdk.Collective) error {
	t := &b.topology
	prev, next := t.rail(t.me-1), t.rail(t.me+1)
	if t.rank < t.first[t.me]+t.rails {
		b.useLinks(func(l *link) int {
			switch {
			case l.way != bothWays:
				return -1
			case l.rank == prev:
				return toPrev
			case l.rank == next:
				return toNext
			}
			return -1
		})
		if err := b.drive(b.algorithms.chain.start(b, c)); err != nil {
			return err
		}
	}
	return b.local.barrier()
}

// The peers of a chain.
const (
	toPrev = iota // the slice's owner on the host before
	toNext
)

// chain is an owner's part in one reduction over several hosts.
type chain struct {
	b          *Backend
	c          *sdk.Collective
	prev, next bool     // there is such a host
	wide       bool     // sums are float32, of half types
	from       int      // where the slice begins in the buffer
	step       int      // bytes of a segment
	bufs       [][]byte // the slice in the buffers of this host's ranks
	srcs       [][]byte
	segments   int
	back       int    // results that the previous hosts need, from the first segment
	ahead      int    // results that the next host sends
	summed     []bool // by segment: it includes this host's contributions
	gone       []bool // by segment: the sum was sent
	done       []bool // by segment: it is the result
}

func (w *chain) start(b *Backend, c *sdk.Collective) *chain {
	t, size := &b.topology, len(c.Buf)
	first, end := t.local()
	slice := tensor.RoundUp(ceilDiv(size, t.rails), line)
	from := min((t.rank-first)*slice, size)
	to := min(from+slice, size)
	w.b, w.c, w.from, w.prev, w.next, w.wide = b, c, from, t.me > 0, t.me < t.hosts()-1, c.DType.Half()
	if w.step = b.set.segment; w.wide {
		w.step /= 2
	}
	w.bufs = w.bufs[:0]
	for _, buf := range b.local.bufs[first:end] {
		w.bufs = append(w.bufs, buf[from:to])
	}
	w.segments = ceilDiv(to-from, w.step)
	w.back, w.ahead = w.needed(t.me-1), w.needed(t.me)
	w.summed, w.gone, w.done = zeroed(w.summed, w.segments), zeroed(w.gone, w.segments), zeroed(w.done, w.segments)
	b.room(2, b.set.segment)
	return w
}

// needed returns how many segments, from the first, have results for any rank of hosts 0 to host.
func (w *chain) needed(host int) int {
	t, d, to := &w.b.topology, w.c.Op.Definition(), len(w.c.Buf)
	switch {
	case host < 0 || d.Rooted() && t.host[w.c.Root] > host:
		to = 0
	case d.Slice == contract.ReceiversPart:
		to = t.end(host) * w.c.Count * w.c.DType.Size()
	}
	return ceilDiv(min(max(to-w.from, 0), len(w.bufs[0])), w.step)
}

// segment returns the s-th piece of the slice, in the buffer of the host's first
// rank, where it is reduced.
func (w *chain) segment(s int) []byte { return piece(w.bufs[0], s, w.step) }

// sum returns where the sum of a segment is until it was sent.
func (w *chain) sum(s int) []byte {
	if w.wide {
		return w.b.slot(0, s)[:2*len(w.segment(s))]
	}
	return w.segment(s)
}

// free reports whether there is a place for the sum of a segment.
func (w *chain) free(s int) bool { return !w.wide || !w.next || s < w.b.depth || w.gone[s-w.b.depth] }

func (w *chain) frames(peer int) (out, in int) {
	switch {
	case peer == toPrev && w.prev:
		return w.back, w.segments
	case peer == toNext && w.next:
		return w.segments, w.ahead
	}
	return 0, 0
}

// out sends sums to the next host and results to the previous one. The first host
// computes a sum when it can be sent.
func (w *chain) out(peer, s int) ([]byte, bool) {
	if peer == toPrev {
		return w.segment(s), w.done[s]
	}
	if !w.prev && !w.summed[s] && w.free(s) {
		w.add(s)
	}
	return w.sum(s), w.summed[s]
}

// in receives a result in place of its sum, which was sent before.
func (w *chain) in(peer, s int) ([]byte, bool) {
	switch {
	case peer == toNext:
		return w.segment(s), true
	case w.wide:
		return w.sum(s), w.free(s)
	}
	return w.b.slot(0, s)[:len(w.segment(s))], true
}

func (w *chain) sent(peer, s int) {
	if peer == toNext {
		w.gone[s] = true
	}
}

func (w *chain) received(peer, s int) {
	if peer == toPrev {
		w.add(s)
	} else {
		w.finish(s)
	}
}

// add adds this host's contributions to a segment. The last host divides for an average.
func (w *chain) add(s int) {
	op := w.c.Reduce
	if op == sdk.Avg && (w.next || w.wide) {
		op = sdk.Sum
	}
	if w.summed[s] = true; w.wide {
		w.addWide(op, s)
	} else {
		w.srcs = w.srcs[:0]
		if w.prev {
			w.srcs = append(w.srcs, w.b.slot(0, s)[:len(w.segment(s))])
		}
		for _, buf := range w.bufs {
			w.srcs = append(w.srcs, piece(buf, s, w.step))
		}
		reduce.Of(op, w.c.DType, w.segment(s), w.srcs, w.b.group.WorldSize)
	}
	if !w.next {
		w.finish(s)
	}
}

// addWide is add in float32.
func (w *chain) addWide(op sdk.ReduceOp, s int) {
	w.b.pair[0] = w.sum(s)
	w.b.pair[1] = w.b.slot(1, 0)[:len(w.b.pair[0])]
	for i, buf := range w.bufs {
		reduce.Widen(op, w.c.DType, w.b.pair[:], piece(buf, s, w.step), i == 0 && !w.prev)
	}
	if !w.next {
		reduce.Narrow(w.c.Reduce, w.c.DType, w.segment(s), w.b.pair[0], w.b.group.WorldSize)
	}
}

// finish copies a result to the ranks of this host that need it; out sends it to the previous host.
func (w *chain) finish(s int) {
	d, part := w.c.Op.Definition(), w.c.Count*w.c.DType.Size()
	first := w.b.topology.first[w.b.topology.me]
	for i, buf := range w.bufs[1:] {
		rank, lo, hi := first+1+i, 0, len(w.segment(s))
		if d.Slice == contract.ReceiversPart {
			at := w.from + s*w.step
			lo, hi = min(max(rank*part-at, 0), hi), min(max((rank+1)*part-at, 0), hi)
		}
		if d.Receives(rank, w.c.Root) && lo < hi {
			copy(piece(buf, s, w.step)[lo:hi], w.segment(s)[lo:hi])
		}
	}
	w.done[s] = true
}

// shareCost gives the leader's cost model to the other ranks of its host.
func (b *Backend) shareCost(ctx context.Context) error {
	b.begin(ctx, &sdk.Collective{Op: sdk.OpBarrier, Bucket: -1})
	l := b.local
	l.began = l.phase + 1
	if b.leads() {
		copy(l.pages[b.group.Rank].cost(), b.cost.encode())
	}
	if err := l.barrier(); err != nil {
		return err
	}
	b.cost = parseCost(l.pages[b.topology.leader()].cost())
	return nil
}

// buffer returns the memory of a rank's call in this process's mapping.
func (l *local) buffer(rank int, k call, size int) ([]byte, error) {
	mem := l.arenas[rank][k.arena]
	if k.offset > uint64(len(mem)) || uint64(size) > uint64(len(mem))-k.offset {
		return nil, l.b.peerError(rank, "its buffer lies outside its arena")
	}
	return mem[k.offset:][:size], nil
}
