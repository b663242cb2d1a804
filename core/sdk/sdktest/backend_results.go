package sdktest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"testing"
	"time"

	"github.com/trainctl/trainctl/core/contract"
	"github.com/trainctl/trainctl/core/contract/contracttest"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/tensor"
)

// testResults checks what collectives compute in a group of one size, first
// in shared memory and then on private buffers.
func (b *backendSuite) testResults(t *testing.T, world int) {
	for _, shared := range []bool{true, false} {
		if shared && b.NoArena || !shared && b.NoPrivate {
			continue
		}
		name := map[bool]string{true: "arena", false: "private"}[shared]
		t.Run(name, func(t *testing.T) {
			g := b.start(t, world, shared, b.CallTimeout)
			r := results{b, g}
			tests := []check{
				{"rank order", r.rankOrder}, {"half overflow", r.halfOverflow}, {"nan and inf", r.special},
				{"barrier", r.barrier}, {"send and recv", r.ring}, {"again", r.again}, {"stream", r.stream},
			}
			for _, op := range sdk.Ops() {
				if op.Definition().Kind == contract.OfGroup {
					tests = append(tests, check{op.String(), r.group(op)})
				}
			}
			for _, test := range tests {
				t.Run(test.name, func(t *testing.T) {
					defer func(outer testing.TB) { g.t = outer }(g.t)
					g.t = t
					test.run(t)
				})
			}
		})
	}
}

type results struct {
	*backendSuite
	g *group
}

// check is one thing that is checked of a group's results.
type check struct {
	name string
	run  func(*testing.T)
}

// slack is the tolerance of sums, in units of rounding.
func (r results) slack(op sdk.ReduceOp) float64 {
	if r.AnyOrder && (op == sdk.Sum || op == sdk.Avg || op == sdk.Prod) {
		return 2 * float64(r.g.world)
	}
	return 0
}

// combination is one way to call a reducing collective.
type combination struct {
	dtype  tensor.DType
	reduce sdk.ReduceOp
	count  int
}

// combinations crosses types, reductions and small counts; large counts run
// with the types that training uses.
func (r results) combinations() (all []combination) {
	for _, n := range r.Counts {
		for _, d := range r.info.DTypes {
			for _, op := range reductions(d) {
				if n <= 1000 || op == sdk.Sum && (d == tensor.F32 || d == tensor.BF16 && n < 1<<17) {
					all = append(all, combination{d, op, n})
				}
			}
		}
	}
	return all
}

// same checks that every rank has want and that all have the same bits.
func (r results) same(t *testing.T, c sdk.Collective, out [][]byte, want []byte, slack float64) {
	t.Helper()
	for rank := range out {
		if d := differ(c.DType, out[rank], want, slack); d != "" {
			t.Fatalf("%v on rank %d of %d: %s", &c, rank, r.g.world, d)
		}
		if !bytes.Equal(out[rank], out[0]) {
			t.Fatalf("%v: ranks 0 and %d of %d have different bits", &c, rank, r.g.world)
		}
	}
}

// rankOrder divides before the sum, as data-parallel training does: three thirds added
// in rank order are not a third of the sum.
func (r results) rankOrder(t *testing.T) {
	r.need(t, sdk.OpAllReduce)
	r.needType(t, tensor.F32)
	if r.AnyOrder {
		t.Skip("the backend does not add in rank order")
	}
	const n = 4097
	in := eachRank(r.g.world, func(rank int) []byte { return values(tensor.F32, n, rank, 2) })
	want := make([]float32, n)
	scale := 1 / float32(r.g.world)
	for rank := range in {
		x := tensor.View[float32](in[rank])
		for i := range x {
			x[i] *= scale
			if rank == 0 {
				want[i] = x[i]
			} else {
				want[i] += x[i]
			}
		}
	}
	c := sdk.Collective{Op: sdk.OpAllReduce, DType: tensor.F32, Count: n}
	r.same(t, c, r.g.do(c, in), tensor.Bytes(want), 0)
}

// halfOverflow adds numbers whose sum, but not whose partial sums in float32,
// is out of the range of binary16, and some whose sum is in it again.
func (r results) halfOverflow(t *testing.T) {
	r.need(t, sdk.OpAllReduce)
	r.needType(t, tensor.F16)
	w := r.g.world
	half := func(x ...float32) []byte {
		h := make([]uint16, len(x))
		for i, v := range x {
			h[i] = tensor.F16FromF32(v)
		}
		return tensor.Bytes(h)
	}
	in := eachRank(w, func(rank int) []byte {
		sign := float32(1 - 2*(rank%2))
		return half(40000/float32(w), 40000, sign*60000, -65504)
	})
	want := make([]byte, len(in[0]))
	contracttest.Reduce(sdk.Sum, tensor.F16, want, in)
	c := sdk.Collective{Op: sdk.OpAllReduce, DType: tensor.F16, Count: 4}
	out := r.g.do(c, in)
	r.same(t, c, out, want, r.slack(sdk.Sum))
	if x := tensor.Number(tensor.F16, out[0], 1); w > 1 && !math.IsInf(x, 1) {
		t.Errorf("%d times 40000 is %v in binary16, want +Inf", w, x)
	}
	if x := tensor.Number(tensor.F16, out[0], 0); math.IsInf(x, 0) {
		t.Errorf("pre-divided 40000 overflowed")
	}
}

// special reduces NaN and the infinities: those of one rank must reach all.
func (r results) special(t *testing.T) {
	r.need(t, sdk.OpAllReduce)
	r.needType(t, tensor.F32)
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	for _, op := range reductions(tensor.F32) {
		in := eachRank(r.g.world, func(rank int) []byte {
			x := []float32{1, 1, 1, -1, 0}
			if rank == r.g.world-1 {
				x = []float32{nan, inf, -inf, 2, float32(math.Copysign(0, -1))}
			}
			return tensor.Bytes(append(x, make([]float32, 100)...))
		})
		want := make([]byte, len(in[0]))
		contracttest.Reduce(op, tensor.F32, want, in)
		c := sdk.Collective{Op: sdk.OpAllReduce, Reduce: op, DType: tensor.F32, Count: 105}
		for rank, out := range r.g.do(c, in) {
			for i := range 4 { // the sign of a zero is left open
				if g, w := tensor.Number(tensor.F32, out, i), tensor.Number(tensor.F32, want, i); g != w && !(g != g && w != w) {
					t.Errorf("%v on rank %d: element %d is %v, want %v", &c, rank, i, g, w)
				}
			}
		}
	}
}

// typesFor are the element types to move n elements of: all if they are few,
// else one that depends on which.
func (r results) typesFor(n, which int) []tensor.DType {
	if n <= 1000 {
		return r.info.DTypes
	}
	return r.info.DTypes[which%len(r.info.DTypes):][:1]
}

// group checks a collective of all ranks, as its definition says, with all
// counts and types and, where there is one, every root.
func (r results) group(op sdk.Op) func(*testing.T) {
	return func(t *testing.T) {
		r.need(t, op)
		for i, k := range r.calls(op) {
			for root := range r.g.world {
				if root > 0 && (!op.Definition().Rooted() || k.Count > 100_000) {
					continue
				}
				c := k
				c.Root = root
				r.check(t, c, i)
			}
		}
	}
}

// calls are the ways to call a collective: reductions with all that combine,
// movements with every count and types by turns.
func (r results) calls(op sdk.Op) (all []sdk.Collective) {
	d := op.Definition()
	if d.Reduces {
		for _, k := range r.combinations() {
			all = append(all, sdk.Collective{Op: op, Reduce: k.reduce, DType: k.dtype, Count: k.count / d.Parts(r.g.world), Bucket: 3})
		}
		return all
	}
	for i, n := range r.Counts {
		for _, t := range r.typesFor(n, i) {
			all = append(all, sdk.Collective{Op: op, DType: t, Count: n / d.Parts(r.g.world), Bucket: -1})
		}
	}
	return all
}

// specified compares what a collective specifies of every rank's buffer with the
// reference; where that is the same on all ranks, its bits are.
func (r results) specified(t *testing.T, c sdk.Collective, in, out [][]byte, slack float64) {
	t.Helper()
	first, call := -1, c.Call()
	for rank, want := range contracttest.Results(&call, in) {
		got, want := contracttest.Result(&call, rank, out[rank]), contracttest.Result(&call, rank, want)
		if d := differ(c.DType, got, want, slack); d != "" {
			t.Fatalf("%v on rank %d of %d: %s", &c, rank, r.g.world, d)
		}
		if d := c.Op.Definition(); !d.Reduces || d.Receivers == contract.OnlyRoot || d.Slice == contract.ReceiversPart {
			continue // moved bytes are compared exactly, and other results differ
		}
		if first < 0 {
			first = rank
		}
		if !bytes.Equal(got, out[first]) {
			t.Fatalf("%v: ranks %d and %d of %d have different bits", &c, first, rank, r.g.world)
		}
	}
}

// check runs a collective and compares every rank's result with the reference.
func (r results) check(t *testing.T, c sdk.Collective, salt int) {
	t.Helper()
	in := eachRank(r.g.world, func(rank int) []byte { return values(c.DType, c.Size(r.g.world)/c.DType.Size(), rank, 1+salt%7) })
	r.specified(t, c, in, r.g.do(c, in), r.slack(c.Reduce))
}

// barrier counts every rank before it calls. When a rank returns, all must be counted.
func (r results) barrier(t *testing.T) {
	r.need(t, sdk.OpBarrier)
	const rounds = 50
	var arrived [rounds]atomic.Int32
	first := r.g.seq
	r.g.all("barrier", func(ctx context.Context, rank int) error {
		for i := range rounds {
			arrived[i].Add(1)
			c := &sdk.Collective{Seq: first + uint64(i) + 1, Op: sdk.OpBarrier, Bucket: -1}
			if err := r.g.call(ctx, rank, c); err != nil {
				return err
			}
			if n := int(arrived[i].Load()); n != r.g.world {
				return fmt.Errorf("returned from barrier %d when %d of %d ranks had called", i, n, r.g.world)
			}
		}
		return nil
	})
	r.g.seq += rounds
}

// ring sends a buffer to the next rank. Rank 0 sends first and the others
// receive first, so that it works without buffering.
func (r results) ring(t *testing.T) {
	r.need(t, sdk.OpSend, sdk.OpRecv)
	if r.g.world == 1 {
		t.Skip("a world of one rank has no one to send to")
	}
	w := r.g.world
	for _, n := range r.Counts {
		r.g.all("ring", func(ctx context.Context, rank int) error {
			next, before := (rank+1)%w, (rank+w-1)%w
			send := r.g.place(sdk.Collective{Op: sdk.OpSend, DType: tensor.I32, Count: n, Root: next, Bucket: -1},
				rank, r.g.seq+1, values(tensor.I32, n, rank, 6))
			recv := *send
			recv.Op, recv.Root = sdk.OpRecv, before
			if rank == 0 {
				recv.Seq++
				return errors.Join(r.g.call(ctx, rank, send), r.receive(ctx, rank, &recv))
			}
			send.Seq++
			if err := r.receive(ctx, rank, &recv); err != nil {
				return err
			}
			copy(send.Buf, values(tensor.I32, n, rank, 6))
			return r.g.call(ctx, rank, send)
		})
		r.g.seq += 2
	}
}

// receive receives from the previous rank in ring.
func (r results) receive(ctx context.Context, rank int, c *sdk.Collective) error {
	clear(c.Buf)
	if err := r.g.call(ctx, rank, c); err != nil {
		return err
	}
	if d := differ(c.DType, c.Buf, values(c.DType, c.Count, c.Root, 6), 0); d != "" {
		return fmt.Errorf("from rank %d: %s", c.Root, d)
	}
	return nil
}

// again repeats a reduction with ranks calling in another order each time: the bits
// must not change.
func (r results) again(t *testing.T) {
	r.need(t, sdk.OpAllReduce)
	r.needType(t, tensor.F32)
	if r.info.Determinism != "bitwise" {
		t.Skip(`Info.Determinism does not promise "bitwise"`)
	}
	var first []byte
	for round := range 2 * r.g.world {
		r.g.seq++
		seq, begin := r.g.seq, make([]chan struct{}, r.g.world+1)
		for i := range begin {
			begin[i] = make(chan struct{})
		}
		close(begin[0])
		outputs := make([][]byte, r.g.world)
		c := sdk.Collective{Op: sdk.OpAllReduce, DType: tensor.F32, Count: 40_000}
		r.g.all(c.String(), func(ctx context.Context, rank int) error {
			place := (rank + round) % r.g.world
			call := r.g.place(c, rank, seq, values(tensor.F32, c.Count, rank, 7))
			<-begin[place]
			time.AfterFunc(time.Duration(round)*100*time.Microsecond, func() { close(begin[place+1]) })
			err := r.g.call(ctx, rank, call)
			outputs[rank] = append([]byte(nil), call.Buf...)
			return err
		})
		if first == nil {
			first = outputs[0]
		}
		for rank, out := range outputs {
			if !bytes.Equal(out, first) {
				t.Fatalf("round %d, rank %d of %d: the sum has other bits than in round 0", round, rank, r.g.world)
			}
		}
	}
}
