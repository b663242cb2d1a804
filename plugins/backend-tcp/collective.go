package tcp

import "github.com/trainctl/trainctl/core/sdk"

// algorithms has one of each algorithm, so that their memory is reused.
type algorithms struct {
	direct   direct
	mesh     mesh
	ring     ring
	doubling whole
	tree     whole
	halving  halving
	chain    chain
	transfer transfer
}

// runSockets runs a collective over sockets, where every rank is a host of its own.
func (b *Backend) runSockets(c *sdk.Collective) error {
	b.useLeaders()
	b.op.attached = b.attaches(c)
	w := b.choose(c)
	if err := b.drive(w); err != nil {
		return err
	}
	if b.op.attached {
		b.finish(c)
	}
	return nil
}

// parcel is what the leader of a host sends together with its call: the contributions of its
// ranks, one after the other.
type parcel struct {
	mine  []byte
	sizes []int  // by host
	wants []bool // by host: any of its ranks receives
}

// attachTo returns what is sent on a link together with the call.
func (b *Backend) attachTo(l *link) []byte {
	c, d, me := b.op.c, b.op.c.Op.Definition(), b.group.Rank
	switch p := b.op.parcel; {
	case p != nil && p.wants[l.at]:
		return p.mine
	case p != nil || !b.op.attached || !d.Sends(me, c.Root) || !d.Receives(l.rank, c.Root):
		return nil
	}
	return c.Slice(c.Buf, me, l.rank)
}

// attachFrom returns where it is received. The buffer itself may only change after all
// ranks have agreed to the call.
func (b *Backend) attachFrom(l *link) []byte {
	c, d, me := b.op.c, b.op.c.Op.Definition(), b.group.Rank
	switch p := b.op.parcel; {
	case p != nil && p.wants[b.topology.me]:
		return b.slot(l.at, 0)[:p.sizes[l.at]]
	case p != nil || !b.op.attached || !d.Sends(l.rank, c.Root) || !d.Receives(me, c.Root):
		return nil
	}
	return b.slot(l.at, 0)[:c.Count*c.DType.Size()]
}

// finish computes the result from the attached payloads.
func (b *Backend) finish(c *sdk.Collective) {
	d, me := c.Op.Definition(), b.group.Rank
	switch {
	case !d.Receives(me, c.Root):
		return
	case d.Reduces:
		b.combine(c.Slice(c.Buf, me, me), 0)
		return
	}
	for r := range b.group.WorldSize {
		if r != me && d.Sends(r, c.Root) {
			copy(c.Slice(c.Buf, r, me), b.slot(r, 0))
		}
	}
}
