package tcp

import "github.com/trainctl/trainctl/core/sdk"

// ways are the algorithms with their memory, which is used again.
type ways struct {
	direct   direct
	mesh     mesh
	ring     ring
	doubling doubling
	halving  halving
	chain    chain
	transfer transfer
}

// runSockets runs a collective whose payload goes through sockets.
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

// trade moves the payload of a collective whose calls the ranks have compared
// in another way.
func (b *Backend) trade(c *sdk.Collective) error {
	for r := range b.op.agreed {
		b.op.agreed[r] = true
	}
	b.op.met = true
	return b.drive(b.choose(c))
}

// attachTo is what travels to a rank together with the call.
func (b *Backend) attachTo(rank int) []byte {
	c := b.op.c
	if !b.op.attached {
		return nil
	}
	size := c.Count * c.DType.Size()
	switch c.Op {
	case sdk.OpReduceScatter:
		return part(c.Buf, size, rank)
	case sdk.OpAllGather:
		return part(c.Buf, size, b.group.Rank)
	case sdk.OpBroadcast:
		if b.group.Rank != c.Root {
			return nil
		}
	}
	return c.Buf
}

// attachFrom is where it is received. The buffer itself may only change when
// all ranks are known to call the same.
func (b *Backend) attachFrom(rank int) []byte {
	c := b.op.c
	if !b.op.attached || c.Op == sdk.OpBroadcast && rank != c.Root {
		return nil
	}
	return b.slot(rank, 0)[:c.Count*c.DType.Size()]
}

// finish makes the result of what was attached.
func (b *Backend) finish(c *sdk.Collective) {
	size, me := c.Count*c.DType.Size(), b.group.Rank
	switch c.Op {
	case sdk.OpAllReduce:
		b.combine(c.Buf, 0)
	case sdk.OpReduceScatter:
		b.combine(part(c.Buf, size, me), 0)
	case sdk.OpAllGather:
		for r := range b.group.WorldSize {
			if r != me {
				copy(part(c.Buf, size, r), b.slot(r, 0))
			}
		}
	case sdk.OpBroadcast:
		if me != c.Root {
			copy(c.Buf, b.slot(c.Root, 0))
		}
	}
}
