//go:build !portable

package tcp

import (
	"github.com/trainctl/trainctl/core/contract"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/tensor"
	"github.com/trainctl/trainctl/plugins/backend-tcp/internal/reduce"
)

// runLocal runs a collective if all ranks are on this host.
func (b *Backend) runLocal(c *sdk.Collective) error {
	l, staged := b.local, stages(c)
	l.round++
	own := l.pages[b.group.Rank]
	b.op.call.encode(own.call(l.round))
	large := len(c.Buf) >= spreadSize
	switch {
	case staged:
		copy(own.stage(l.round), l.contribution(c))
	case large:
		own.cpu().Store(currentCPU())
	}
	if err := l.barrier(2 * l.round); err != nil {
		return err
	}
	if err := l.compare(); err != nil {
		return err
	}
	switch {
	case len(c.Buf) == 0 || c.Op == sdk.OpBarrier:
		return nil
	case staged:
		l.finishStaged(c)
		return nil
	case !l.allShared():
		return b.exchangePayload(c)
	}
	if err := l.resolve(c); err != nil {
		return err
	}
	if large {
		l.spread()
	}
	l.inPlace(c)
	return l.barrier(2*l.round + 1)
}

// compare reads and compares the ranks' calls.
func (l *local) compare() error {
	for r, p := range l.pages {
		l.calls[r] = parseCall(p.call(l.round))
		if !l.b.op.call.matches(l.calls[r]) {
			return l.b.mismatch(r, l.calls[r])
		}
		l.b.op.agreed[r] = true
	}
	return nil
}

func (l *local) allShared() bool {
	for _, k := range l.calls {
		if !k.shared {
			return false
		}
	}
	return true
}

// contribution returns what this rank provides to the others.
func (l *local) contribution(c *sdk.Collective) []byte {
	d, me := c.Op.Definition(), l.b.group.Rank
	switch {
	case !d.Sends(me, c.Root):
		return nil
	case d.Slice == contract.SendersPart:
		return c.Slice(c.Buf, me, me)
	}
	return c.Buf
}

// finishStaged computes the result from the ranks' control pages.
func (l *local) finishStaged(c *sdk.Collective) {
	d, size, me := c.Op.Definition(), c.Count*c.DType.Size(), l.b.group.Rank
	if !d.Receives(me, c.Root) {
		return
	}
	mine := 0
	if d.Slice == contract.ReceiversPart {
		mine = me * size
	}
	for r, p := range l.pages {
		l.tiles[r] = p.stage(l.round)[mine:][:size]
		if !d.Reduces && d.Sends(r, c.Root) {
			copy(c.Slice(c.Buf, r, me), l.tiles[r])
		}
	}
	if d.Reduces {
		reduce.All(c.Reduce, c.DType, c.Slice(c.Buf, me, me), l.tiles)
	}
}

// resolve finds every rank's buffer in this process's mappings.
func (l *local) resolve(c *sdk.Collective) error {
	for r, k := range l.calls {
		var err error
		if l.bufs[r], err = l.buffer(r, k, len(c.Buf)); err != nil {
			return err
		}
	}
	return nil
}

// inPlace works directly on the other ranks' memory. Each rank writes only
// what no other rank reads or writes in this phase.
func (l *local) inPlace(c *sdk.Collective) {
	d, size, me := c.Op.Definition(), c.Count*c.DType.Size(), l.b.group.Rank
	switch {
	case d.Reduces && d.Slice == contract.ReceiversPart:
		l.reduceRange(c, me*size, (me+1)*size)
	case d.Reduces:
		chunk := tensor.RoundUp(ceilDiv(size, l.b.group.WorldSize), line)
		l.reduceRange(c, min(me*chunk, size), min((me+1)*chunk, size))
	case d.Receives(me, c.Root):
		for r, buf := range l.bufs {
			if r != me && d.Sends(r, c.Root) {
				copy(c.Slice(c.Buf, r, me), c.Slice(buf, r, me))
			}
		}
	}
}

// reduceRange reduces bytes [from, to) of all buffers tile by tile, for the ranks
// that receive them: this one if the parts are its own, else all that receive a result.
// No other rank accesses these bytes of any buffer, so the result is computed in the
// first rank's tile, which is fastest.
func (l *local) reduceRange(c *sdk.Collective, from, to int) {
	d := c.Op.Definition()
	for ; from < to; from += tileSize {
		end := min(from+tileSize, to)
		for r, buf := range l.bufs {
			l.tiles[r] = buf[from:end]
		}
		reduce.All(c.Reduce, c.DType, l.tiles[0], l.tiles)
		for r, tile := range l.tiles {
			if r != 0 && d.Receives(r, c.Root) && (d.Slice == contract.Whole || r == l.b.group.Rank) {
				copy(tile, l.tiles[0])
			}
		}
	}
}
