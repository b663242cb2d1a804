package tcp

import (
	"github.com/trainctl/trainctl/core/sdk"
)

// runMesh runs a collective of all ranks over sockets.
func (b *Backend) runMesh(c *sdk.Collective) error {
	x := b.exchangeFor(c)
	if err := b.agree(&x); err != nil {
		return err
	}
	if x.finish != nil {
		x.finish()
	}
	return b.trade(&x)
}

func (b *Backend) exchangeFor(c *sdk.Collective) exchange {
	size := c.Count * c.DType.Size() // of the whole, or of one rank's part
	switch {
	case size == 0 || c.Op == sdk.OpBarrier:
		return exchange{}
	case b.attaches(c.Op, size):
		return b.attachedExchange(c, size)
	}
	return b.segmentedExchange(c)
}

// attachedExchange carries everything with the calls.
func (b *Backend) attachedExchange(c *sdk.Collective, size int) exchange {
	me := b.group.Rank
	x := exchange{attached: size}
	switch c.Op {
	case sdk.OpAllReduce:
		slots := b.slots(size)
		x.attach = func(int) []byte { return c.Buf }
		x.attachments = func(from int) []byte { return slots(from) }
		x.finish = func() { b.reduce(c.Buf, slots) }
	case sdk.OpReduceScatter:
		slots := b.slots(size)
		x.attach = func(to int) []byte { return part(c.Buf, size, to) }
		x.attachments = func(from int) []byte { return slots(from) }
		x.finish = func() { b.reduce(part(c.Buf, size, me), slots) }
	case sdk.OpAllGather:
		x.attach = func(int) []byte { return part(c.Buf, size, me) }
		x.attachments = func(from int) []byte { return part(c.Buf, size, from) }
	case sdk.OpBroadcast:
		if me == c.Root {
			x.attach = func(int) []byte { return c.Buf }
			break
		}
		x.attached = 0
		x.attachments = func(from int) []byte {
			if from == c.Root {
				return c.Buf
			}
			return nil
		}
	}
	return x
}

// segmentedExchange gives every rank a chunk of the buffer to care for.
func (b *Backend) segmentedExchange(c *sdk.Collective) exchange {
	me := b.group.Rank
	cut := b.cut(c)
	ofMine := func(s, _ int) []byte { return cut.segment(s, me) }
	x := exchange{segments: cut.segments}
	switch c.Op {
	case sdk.OpAllGather:
		x.gather, x.gathered = ofMine, cut.segment
	case sdk.OpAllReduce, sdk.OpReduceScatter:
		slots := b.slots(cut.size)
		x.scatter = cut.segment
		x.scattered = func(s, from int) []byte { return slots(from)[:len(cut.segment(s, me))] }
		x.combine = func(s int) { b.reduce(cut.segment(s, me), slots) }
		if c.Op == sdk.OpAllReduce {
			x.gather, x.gathered = ofMine, cut.segment
		}
	case sdk.OpBroadcast:
		b.broadcastExchange(&x, cut, c.Root)
	}
	return x
}

// broadcastExchange lets the root give each rank its chunk, which hands it to
// the others: the root sends little more than the buffer once.
func (b *Backend) broadcastExchange(x *exchange, cut cut, root int) {
	me := b.group.Rank
	if me == root {
		x.scatter = cut.segment
		x.gather = func(s, _ int) []byte { return cut.segment(s, me) }
		return
	}
	x.scattered = func(s, from int) []byte {
		if from != root {
			return nil
		}
		return cut.segment(s, me)
	}
	x.gather = func(s, to int) []byte {
		if to == root {
			return nil
		}
		return cut.segment(s, me)
	}
	x.gathered = cut.segment
}

// cut divides a buffer into one chunk per rank and those into segments.
type cut struct {
	buf      []byte
	chunk    int // bytes, the last chunks may be shorter or empty
	size     int // bytes of a segment
	segments int // of the longest chunk
}

// line is the size of a cache line, and a multiple of every element size.
const line = 64

func (b *Backend) cut(c *sdk.Collective) cut {
	chunk := len(c.Buf) / b.group.WorldSize
	if b.parts(c.Op) == 1 {
		chunk = roundUp(ceilDiv(len(c.Buf), b.group.WorldSize), line)
	}
	return cut{buf: c.Buf, chunk: chunk, size: b.set.segment, segments: ceilDiv(chunk, b.set.segment)}
}

// segment is the s-th piece of rank's chunk, empty past its end.
func (c cut) segment(s, rank int) []byte {
	end := min((rank+1)*c.chunk, len(c.buf))
	from := min(rank*c.chunk+s*c.size, end)
	return c.buf[from:min(from+c.size, end)]
}

func part(buf []byte, size, rank int) []byte { return buf[rank*size:][:size] }

func ceilDiv(a, b int) int { return (a + b - 1) / b }

func roundUp(n, to int) int { return ceilDiv(n, to) * to }

// slots gives every rank a piece of the scratch memory of the given size.
func (b *Backend) slots(size int) func(rank int) []byte {
	stride := roundUp(size, line)
	if need := stride * b.group.WorldSize; len(b.scratch) < need {
		b.scratch = make([]byte, need)
	}
	return func(rank int) []byte { return b.scratch[rank*stride:][:size] }
}

// reduce combines mine and the other ranks' slots in rank order into mine.
func (b *Backend) reduce(mine []byte, slots func(int) []byte) {
	for r := range b.srcs {
		if r == b.group.Rank {
			b.srcs[r] = mine
		} else {
			b.srcs[r] = slots(r)[:len(mine)]
		}
	}
	reduceN(b.op.c.Reduce, b.op.c.DType, b.srcs[0], b.srcs)
	if b.group.Rank != 0 {
		copy(mine, b.srcs[0])
	}
}

// transfer is one end of Send and Recv. The ends meet before payload moves.
func (b *Backend) transfer(c *sdk.Collective) error {
	p := b.peers[c.Root]
	mine := make([]byte, callSize)
	b.op.call.encode(mine)
	if err := b.write(p, kindCall, mine, nil); err != nil {
		return err
	}
	its, h, err := b.readCall(p)
	if err != nil {
		return err
	}
	if !b.op.call.answers(its, b.group.Rank, p.rank) {
		return b.mismatch(p.rank, its)
	}
	if h.length != callSize {
		return b.peerError(p.rank, errFrame.Error())
	}
	for rest := c.Buf; len(rest) > 0; {
		n := min(len(rest), b.set.segment)
		if c.Op == sdk.OpSend {
			err = b.write(p, kindData, nil, rest[:n])
		} else {
			err = b.readData(p, rest[:n])
		}
		if err != nil {
			return err
		}
		rest = rest[n:]
	}
	return nil
}
