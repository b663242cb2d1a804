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

// runSockets runs a collective over sockets.
func (b *Backend) runSockets(c *sdk.Collective) error {
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

// exchangePayload runs a collective whose calls the ranks have already compared.
func (b *Backend) exchangePayload(c *sdk.Collective) error {
	for r := range b.op.agreed {
		b.op.agreed[r] = true
	}
	b.op.met = true
	return b.drive(b.choose(c))
}

// attachTo returns what is sent to a rank together with the call.
func (b *Backend) attachTo(rank int) []byte {
	c, d, me := b.op.c, b.op.c.Op.Definition(), b.group.Rank
	if !b.op.attached || !d.Sends(me, c.Root) || !d.Receives(rank, c.Root) {
		return nil
	}
	return c.Slice(c.Buf, me, rank)
}

// attachFrom returns where it is received. The buffer itself may only change after all
// ranks have agreed to the call.
func (b *Backend) attachFrom(rank int) []byte {
	c, d, me := b.op.c, b.op.c.Op.Definition(), b.group.Rank
	if !b.op.attached || !d.Sends(rank, c.Root) || !d.Receives(me, c.Root) {
		return nil
	}
	return b.slot(rank, 0)[:c.Count*c.DType.Size()]
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

// transfer is one end of Send and Recv.
type transfer struct {
	b *Backend
	c *sdk.Collective
}

func (w *transfer) count() int { return ceilDiv(len(w.c.Buf), w.b.set.segment) }

func (w *transfer) frames(int) (out, in int) {
	if w.c.Op == sdk.OpSend {
		return w.count(), 0
	}
	return 0, w.count()
}

func (w *transfer) out(_, i int) ([]byte, bool) { return piece(w.c.Buf, i, w.b.set.segment), true }
func (w *transfer) in(_, i int) ([]byte, bool)  { return piece(w.c.Buf, i, w.b.set.segment), true }
func (w *transfer) sent(int, int)               {}
func (w *transfer) received(int, int)           {}
