package ddp

import (
	"fmt"
	"time"

	"github.com/trainctl/trainctl/core/report/timeline"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/tensor"
)

// Collectives is what this package needs of a backend: submit returns at
// once, wait blocks until the ticket's call is complete or its deadline has
// passed. Calls are executed in the order of their submission.
type Collectives interface {
	Submit(c *sdk.Collective) (ticket uint64, err error)
	Wait(ticket uint64) error
}

// Group numbers this rank's collectives. Every rank must make the same calls
// in the same order; the numbers let a backend name the first difference.
// A Group belongs to the goroutine of the training loop.
type Group struct {
	Rank, World int

	comm    Collectives
	arena   *sdk.Arena
	scratch Region
	seq     uint64
	watch   Stopwatch // with trace
	trace   *timeline.Recorder
	exposed time.Duration
	call    sdk.Collective // reused, so that a call allocates nothing
	channel int            // of the next calls
}

// Region is a part of the arena.
type Region struct{ Offset, Size int }

// ScratchBytes is the size of the region that NewGroup needs for reducing
// scalars, for up to 512 ranks.
const ScratchBytes = 512 * 8

// ScratchSize is the size of that region for any number of ranks.
func ScratchSize(world int) int { return max(ScratchBytes, Align(8*world)) }

// NewGroup makes a group over a connected backend. The scratch region lies in
// the arena, which the caller keeps alive as long as the group.
func NewGroup(rank, world int, comm Collectives, arena *sdk.Arena, scratch Region) *Group {
	if need := ScratchSize(world); scratch.Size < need {
		panic(fmt.Sprintf("ddp: scratch region of %d bytes, need %d", scratch.Size, need))
	}
	return &Group{Rank: rank, World: world, comm: comm, arena: arena, scratch: scratch}
}

// Exposed is the time that this rank has waited for communication since the last call:
// communication that did not overlap with computing, and waiting for slower ranks.
func (g *Group) Exposed() time.Duration {
	d := g.exposed
	g.exposed = 0
	return d
}

// Bytes is the memory of a region.
func (g *Group) Bytes(r Region) []byte {
	return g.arena.Bytes()[r.Offset : r.Offset+r.Size : r.Offset+r.Size]
}

// Seq is the number of the last collective that this rank has called.
func (g *Group) Seq() uint64 { return g.seq }

// Continue continues with the number after seq in a new group of the backend: ranks
// may have called different numbers of collectives in the broken one.
func (g *Group) Continue(seq uint64) { g.seq = seq }

// submit numbers and starts a collective over a region.
func (g *Group) submit(op sdk.Op, red sdk.ReduceOp, d tensor.DType, r Region, root, bucket int) (uint64, error) {
	g.number(op, red, d, r, root, bucket)
	return g.comm.Submit(&g.call)
}

// submitIn is submit of a bucket's sum in an arena on a device, laid out as the
// group's, between events.
func (g *Group) submitIn(arena *sdk.Arena, d tensor.DType, r Region, bucket, ready, done int) (uint64, error) {
	g.number(sdk.OpAllReduce, sdk.Sum, d, r, 0, bucket)
	g.call.Arena, g.call.Buf, g.call.Ready, g.call.Done = arena, nil, ready, done
	return g.comm.Submit(&g.call)
}

// number makes the next call.
func (g *Group) number(op sdk.Op, red sdk.ReduceOp, d tensor.DType, r Region, root, bucket int) {
	g.seq++
	count := r.Size / d.Size()
	if op.Definition().Parts(g.World) == g.World {
		count /= g.World
	}
	g.call = sdk.Collective{
		Seq: g.seq, Op: op, Reduce: red, DType: d, Count: count, Root: root, Bucket: bucket,
		Arena: g.arena, Offset: r.Offset, Buf: g.Bytes(r), Channel: g.channel,
	}
}

func (g *Group) run(op sdk.Op, red sdk.ReduceOp, d tensor.DType, r Region, root int) error {
	t, err := g.submit(op, red, d, r, root, -1)
	if err != nil {
		return err
	}
	return g.wait(t, op.String(), -1, r)
}

// AllReduce reduces a region over all ranks, in place.
func (g *Group) AllReduce(r Region, op sdk.ReduceOp, d tensor.DType) error {
	if g.World == 1 || r.Size == 0 {
		return nil
	}
	return g.run(sdk.OpAllReduce, op, d, r, 0)
}

// Broadcast overwrites a region on every rank with root's bytes.
func (g *Group) Broadcast(r Region, root int) error {
	if g.World == 1 || r.Size == 0 {
		return nil
	}
	return g.run(sdk.OpBroadcast, sdk.Sum, tensor.U8, r, root)
}

// Barrier returns when every rank has called it.
func (g *Group) Barrier() error {
	if g.World == 1 {
		return nil
	}
	return g.run(sdk.OpBarrier, sdk.Sum, tensor.U8, Region{Offset: g.scratch.Offset}, 0)
}

// Pending is a reduction of scalars in progress.
type Pending struct {
	ticket uint64
	n      int
}

// StartScalars starts to reduce up to ScratchBytes/8 float64 values over all ranks. Only one
// reduction of scalars may be in progress.
func (g *Group) StartScalars(op sdk.ReduceOp, values []float64) (Pending, error) {
	n := len(values)
	if n*8 > ScratchBytes {
		panic(fmt.Sprintf("ddp: %d scalars in one reduction, at most %d", n, ScratchBytes/8))
	}
	copy(tensor.View[float64](g.Bytes(g.scratch)), values)
	if g.World == 1 {
		return Pending{n: n}, nil
	}
	r := Region{Offset: g.scratch.Offset, Size: n * 8}
	t, err := g.submit(sdk.OpAllReduce, op, tensor.F64, r, 0, -1)
	return Pending{ticket: t, n: n}, err
}

// FinishScalars waits for StartScalars and copies the results to dst.
func (g *Group) FinishScalars(p Pending, dst []float64) error {
	if g.World > 1 {
		if err := g.wait(p.ticket, "totals", -1, Region{Size: 8 * p.n}); err != nil {
			return err
		}
	}
	copy(dst[:p.n], tensor.View[float64](g.Bytes(g.scratch)))
	return nil
}

// Scalars reduces values over all ranks in place.
func (g *Group) Scalars(op sdk.ReduceOp, values []float64) error {
	p, err := g.StartScalars(op, values)
	if err != nil {
		return err
	}
	return g.FinishScalars(p, values)
}

// Gather returns every rank's value, by rank; the memory is the arena's until
// the next reduction of scalars.
func (g *Group) Gather(value float64) ([]float64, error) {
	r := Region{Offset: g.scratch.Offset, Size: 8 * g.World}
	all := tensor.View[float64](g.Bytes(r))
	all[g.Rank] = value
	if g.World == 1 {
		return all, nil
	}
	return all, g.run(sdk.OpAllGather, sdk.Sum, tensor.F64, r, 0)
}

// Any reports on all ranks whether flag is true on at least one.
func (g *Group) Any(flag bool) (bool, error) {
	v := [1]float64{}
	if flag {
		v[0] = 1
	}
	err := g.Scalars(sdk.Max, v[:])
	return v[0] > 0, err
}
