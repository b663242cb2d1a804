package mpi

import (
	"github.com/trainctl/trainctl/core/contract"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/tensor"
	"github.com/trainctl/trainctl/plugins/internal/clib"
	"github.com/trainctl/trainctl/plugins/internal/reduce"
)

const (
	// defaultSegment is how many bytes of a buffer, or of each rank's part, are moved at a time.
	// It bounds the memory for what other ranks send.
	defaultSegment = 16 << 20

	// gatherTotal is the most that a rank receives, in bytes, where every rank gets all
	// contributions and adds them: one operation instead of two.
	gatherTotal = 128 << 10

	line = 64 // bytes of a cache line, a multiple of every element
)

// run is a collective that the ranks have agreed on.
type run struct {
	*Backend
	c     *sdk.Collective
	guard clib.Guard
	buf   []byte // mapped memory
	size  int    // of an element
	unit  handle
}

// move runs an agreed collective, on the thread.
func (b *Backend) move(c *sdk.Collective, g clib.Guard) error {
	r := run{Backend: b, c: c, guard: g, buf: c.Buf, size: c.DType.Size(), unit: b.lib.unit(c.DType)}
	if c.Arena == nil { // Go's memory, see region
		var err error
		if r.buf, err = b.stage.bytes(len(c.Buf)); err != nil {
			return err
		}
		copy(r.buf, c.Buf)
		defer func() { copy(c.Buf, r.buf) }()
	}
	extent := c.Count * r.size
	for from := 0; from < extent; from += b.segment {
		if err := r.move(from, min(from+b.segment, extent)); err != nil {
			return err
		}
	}
	return nil
}

// move moves the bytes [from, to) of the buffer, or of each rank's part of it.
func (r *run) move(from, to int) error {
	switch d := r.c.Op.Definition(); {
	case d.Kind == contract.OfPair:
		return r.transfer(r.buf[from:to])
	case d.Reduces && d.Slice == contract.Whole:
		return r.reduceWhole(r.buf[from:to], d)
	case d.Reduces:
		return r.reduceParts(from, to)
	case d.Senders == contract.OnlyRoot && d.Slice == contract.Whole:
		return r.begin(func(p *pending) error {
			return r.lib.Ibcast(address(r.buf[from:]), r.count(to-from), r.unit, int32(r.c.Root), r.comm, &p.request)
		})
	}
	return r.exchange(from, to)
}

// begin begins an operation and waits for its end.
func (r *run) begin(f func(*pending) error) error {
	p := new(pending)
	return r.wait(p, f(p), r.guard)
}

// count is a number of elements.
func (r *run) count(bytes int) int32 { return int32(bytes / r.size) }

// tag is that of all transfers: the ranks agree on each before it begins.
const tag = 1

func (r *run) transfer(buf []byte) error {
	return r.begin(func(p *pending) error {
		f := r.lib.Isend
		if r.c.Op == sdk.OpRecv {
			f = r.lib.Irecv
		}
		return f(address(buf), r.count(len(buf)), r.unit, int32(r.c.Root), tag, r.comm, &p.request)
	})
}

// exchange copies slices between all ranks as the collective's definition says.
func (r *run) exchange(from, to int) error {
	d, n := r.c.Op.Definition(), &r.counts
	me, extent := r.group.Rank, r.c.Count*r.size
	for peer := range r.group.WorldSize {
		n.send[peer], n.recv[peer] = 0, 0
		n.sendAt[peer], n.recvAt[peer] = r.count(d.Offset(me, peer)*extent+from), r.count(d.Offset(peer, me)*extent+from)
		if peer == me {
			continue
		}
		if d.Sends(me, r.c.Root) && d.Receives(peer, r.c.Root) {
			n.send[peer] = r.count(to - from)
		}
		if d.Sends(peer, r.c.Root) && d.Receives(me, r.c.Root) {
			n.recv[peer] = r.count(to - from)
		}
	}
	if d.Slice == contract.SendersPart && d.Senders == contract.All && d.Receivers == contract.All {
		n.recv[me] = r.count(to - from)
		return r.allGather(r.buf)
	}
	return r.allToAll(r.buf, r.buf)
}

// allGather gives every rank the parts of all, which lie in buf where counts says.
func (r *run) allGather(buf []byte) error {
	return r.begin(func(p *pending) error {
		return r.lib.Iallgatherv(r.lib.inPlace, 0, r.unit, address(buf), &r.counts.recv[0], &r.counts.recvAt[0], r.unit, r.comm, &p.request)
	})
}

// allToAll sends from one buffer and receives in another, or the same, as counts says.
func (r *run) allToAll(from, into []byte) error {
	n := &r.counts
	return r.begin(func(p *pending) error {
		return r.lib.Ialltoallv(address(from), &n.send[0], &n.sendAt[0], r.unit, address(into), &n.recv[0], &n.recvAt[0], r.unit, r.comm, &p.request)
	})
}

// reduceParts sends each rank what the others have for it, and reduces it there.
func (r *run) reduceParts(from, to int) error {
	n, me, extent := &r.counts, r.group.Rank, r.c.Count*r.size
	into, err := r.slots(to - from)
	if err != nil {
		return err
	}
	for peer := range r.group.WorldSize {
		n.send[peer], n.sendAt[peer] = r.count(to-from), r.count(peer*extent+from)
		n.recv[peer], n.recvAt[peer] = r.count(to-from), r.count(peer*r.stride(to-from))
	}
	n.send[me], n.recv[me] = 0, 0
	if err := r.allToAll(r.buf, into); err != nil {
		return err
	}
	r.combine(r.buf[me*extent+from:me*extent+to], into)
	return nil
}

// reduceWhole reduces a buffer for all ranks, or for the root: each rank reduces a chunk,
// and the chunks are then collected.
func (r *run) reduceWhole(buf []byte, d *contract.Definition) error {
	world, me := r.group.WorldSize, r.group.Rank
	switch {
	case d.Receivers == contract.All && r.native():
		return r.reduceByMPI(buf)
	case d.Receivers == contract.All && len(buf)*(world-1) <= gatherTotal:
		return r.reduceGathered(buf)
	}
	chunk := tensor.RoundUp((len(buf)+world-1)/world, line)
	of := func(rank int) (from, to int) { return min(rank*chunk, len(buf)), min((rank+1)*chunk, len(buf)) }
	from, to := of(me)
	into, err := r.slots(to - from)
	if err != nil {
		return err
	}
	n := &r.counts
	for peer := range world {
		first, last := of(peer)
		n.send[peer], n.sendAt[peer] = r.count(last-first), r.count(first)
		n.recv[peer], n.recvAt[peer] = r.count(to-from), r.count(peer*r.stride(to-from))
	}
	n.send[me], n.recv[me] = 0, 0
	if err := r.allToAll(buf, into); err != nil {
		return err
	}
	r.combine(buf[from:to], into)
	for peer := range world {
		first, last := of(peer)
		n.recv[peer], n.recvAt[peer] = r.count(last-first), r.count(first)
	}
	if d.Receivers == contract.OnlyRoot {
		return r.gather(buf, from, to)
	}
	return r.allGather(buf)
}

// gather collects the ranks' chunks, of which this rank's is [from, to), at the root.
func (r *run) gather(buf []byte, from, to int) error {
	n := &r.counts
	send := address(buf[from:])
	if r.group.Rank == r.c.Root {
		send = r.lib.inPlace
	}
	return r.begin(func(p *pending) error {
		return r.lib.Igatherv(send, r.count(to-from), r.unit, address(buf), &n.recv[0], &n.recvAt[0], r.unit, int32(r.c.Root), r.comm, &p.request)
	})
}

// reduceGathered sends every contribution to all ranks, each of which reduces them.
func (r *run) reduceGathered(buf []byte) error {
	all, err := r.scratch.bytes(r.group.WorldSize * len(buf))
	if err != nil {
		return err
	}
	err = r.begin(func(p *pending) error {
		n := r.count(len(buf))
		return r.lib.Iallgather(address(buf), n, r.unit, address(all), n, r.unit, r.comm, &p.request)
	})
	if err != nil {
		return err
	}
	for rank := range r.srcs {
		r.srcs[rank] = all[rank*len(buf):][:len(buf)]
	}
	reduce.All(r.c.Reduce, r.c.DType, buf, r.srcs)
	return nil
}

// native reports whether MPI itself may reduce: not in the order of the ranks, and only
// what it defines as this contract does. Its Min and Max leave NaN open, and integers that
// overflow: Open MPI's 8-bit sums stay at the limit.
func (r *run) native() bool {
	op, t := r.c.Reduce, r.c.DType
	return !r.set.reproducible && (t == tensor.F32 || t == tensor.F64) && (op == sdk.Sum || op == sdk.Avg || op == sdk.Prod)
}

// reduceByMPI is MPI's own all-reduce.
func (r *run) reduceByMPI(buf []byte) error {
	op := r.c.Reduce
	if op == sdk.Avg {
		op = sdk.Sum
	}
	err := r.begin(func(p *pending) error {
		return r.lib.Iallreduce(r.lib.inPlace, address(buf), r.count(len(buf)), r.lib.types[r.c.DType], r.lib.ops[op], r.comm, &p.request)
	})
	if err == nil && r.c.Reduce == sdk.Avg {
		reduce.Of(sdk.Avg, r.c.DType, buf, [][]byte{buf}, r.group.WorldSize)
	}
	return err
}

// slots is memory for n bytes from every rank.
func (r *run) slots(n int) ([]byte, error) { return r.scratch.bytes(r.group.WorldSize * r.stride(n)) }

// stride is the distance of two slots of n bytes.
func (r *run) stride(n int) int { return tensor.RoundUp(n, line) }

// combine reduces mine and the other ranks' slots, in rank order, into mine.
func (r *run) combine(mine, slots []byte) {
	if len(mine) == 0 {
		return
	}
	for rank := range r.srcs {
		r.srcs[rank] = slots[rank*r.stride(len(mine)):][:len(mine)]
	}
	r.srcs[r.group.Rank] = mine
	reduce.Own(r.c.Reduce, r.c.DType, r.srcs, r.group.Rank, r.group.WorldSize)
}

// counts are the arguments of an operation with parts of different sizes, in elements, by
// rank. The library may read them until the operation ends.
type counts struct{ send, sendAt, recv, recvAt []int32 }

func newCounts(world int) counts {
	of := func() []int32 { return make([]int32, world) }
	return counts{of(), of(), of(), of()}
}
