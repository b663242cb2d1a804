package ops

import (
	"github.com/trainctl/trainctl/core/engine/cpu/bind"
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/attention"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/plan"
)

func init() {
	backward := func(s *plan.Step, _ int) int { return attention.BackwardScratch(headsOf(s).Head) }
	forward := func(s *plan.Step, _ int) int {
		if s.Positions > 0 {
			return keptScratch(s)
		}
		return attention.ForwardScratch(headsOf(s).Head)
	}
	bind.Implement(op.Attention, bind.Implementation{F32: bindAttention[float32], F64: bindAttention[float64], Scratch: forward, Blocks: bind.Cuts{Along: bind.Images, Of: []int{0, 1, 2, ^0, ^1}}})
	bind.Implement(op.AttentionGrad, bind.Implementation{F32: bindAttentionGrad[float32], F64: bindAttentionGrad[float64], Scratch: backward, Blocks: bind.Cuts{Along: bind.Images, Of: []int{0, 1, 2, 3, 4, 5, ^0, ^1, ^2}}})
}

// heads is the geometry of an attention.
type heads struct {
	attention.Head
	op.AttentionAttr
	packed bool // queries, keys and values lie side by side
	images int
	group  int // query heads of each key head
}

func headsOf(s *plan.Step) heads {
	a, n := s.Attr.(op.AttentionAttr), len(s.In)
	if s.Op == op.AttentionGrad {
		n -= 3
	}
	if s.Positions > 0 {
		n -= 2 // the keys and values that are kept
	}
	q, k := s.In[0].Spec.Shape, s.In[n/2].Spec.Shape
	return heads{
		Head:          attention.Head{Queries: q[1], Keys: k[1], Dim: a.Dim, Causal: a.Causal, Rotary: a.RopeTheta != 0},
		AttentionAttr: a, packed: n == 1, images: q[0], group: a.Heads / a.KVHeads,
	}
}

// headRows are where the queries, keys and values of head h of an image lie, or their
// gradients, in their tensors: one or three.
func headRows[T kernel.Float](g *heads, tensors []func(*plan.Call) []T, c *plan.Call, image, h int) (q, k, v attention.Rows[T]) {
	kv, d := h/g.group, g.Head.Dim
	if g.packed {
		x, width := tensors[0](c), (g.Heads+2*g.KVHeads)*d
		x = x[image*g.Queries*width:]
		at := func(head int) attention.Rows[T] { return attention.Rows[T]{Data: x[head*d:], Stride: width} }
		return at(h), at(g.Heads + kv), at(g.Heads + g.KVHeads + kv)
	}
	at := func(i, positions, heads, head int) attention.Rows[T] {
		return attention.Rows[T]{Data: tensors[i](c)[image*positions*heads*d+head*d:], Stride: heads * d}
	}
	return at(0, g.Queries, g.Heads, h), at(1, g.Keys, g.KVHeads, kv), at(2, g.Keys, g.KVHeads, kv)
}

// outputRows are where the output of head h of an image lies, or its gradient.
func outputRows[T kernel.Float](g *heads, y []T, image, h int) attention.Rows[T] {
	width := g.Heads * g.Head.Dim
	return attention.Rows[T]{Data: y[image*g.Queries*width+h*g.Head.Dim:], Stride: width}
}

// head is the geometry of one head in a call, with its share of the dropout's stream.
func (g *heads) head(s *plan.Step, c *plan.Call, image, h int) attention.Head {
	one := g.Head
	if s.Train && g.P > 0 {
		one.Dropout = attention.Dropout{P: g.P, Seed: c.Seed, Stream: c.Stream | g.Layer, First: uint64((c.Image+image)*g.Heads+h) * uint64(g.Queries*g.RowLen())}
	}
	return one
}

// positions are the rotary ones, or nil.
func positions[T kernel.Float](g *heads) *attention.Rotary[T] {
	if g.RopeTheta == 0 {
		return nil
	}
	frequencies, gain := g.Frequencies()
	return attention.NewRotary[T](frequencies, gain, max(g.Queries, g.Keys))
}

func ins[T kernel.Float](b *bind.Binder[T], n int) (list []func(*plan.Call) []T) {
	for i := range n {
		list = append(list, b.In(i))
	}
	return list
}

// bindAttention shares the heads of all images among threads.
func bindAttention[T kernel.Float](b *bind.Binder[T]) bind.Job {
	if b.Step.Positions > 0 {
		return bindKeptAttention(b)
	}
	g, in, scratch := headsOf(b.Step), ins(b, len(b.Step.In)), b.Scratches()
	y, _ := b.Out(0)
	lse, _ := b.Out(1)
	rotary := positions[T](&g)
	return b.Split(g.images*g.Heads, 1, func(c *plan.Call, part, lo, hi int) {
		for i := lo; i < hi; i++ {
			image, h := i/g.Heads, i%g.Heads
			q, k, v := headRows(&g, in, c, image, h)
			attention.Forward(g.head(b.Step, c, image, h), rotary, q, k, v, outputRows(&g, y, image, h), lse[i*g.Queries:][:g.Queries], scratch[part])
		}
	})
}

// bindAttentionGrad keeps the query heads that share a key head on one thread.
func bindAttentionGrad[T kernel.Float](b *bind.Binder[T]) bind.Job {
	g, n := headsOf(b.Step), len(b.Step.In)-3
	in, out, lse, dy, scratch := ins(b, n), b.In(n), b.In(n+1), b.In(n+2), b.Scratches()
	var grads []func(*plan.Call) []T
	for i := range n {
		dx, _ := b.Out(i)
		grads = append(grads, bind.Always(dx))
	}
	rotary := positions[T](&g)
	return b.Split(g.images*g.KVHeads, 1, func(c *plan.Call, part, lo, hi int) {
		for i := lo; i < hi; i++ {
			image, first := i/g.KVHeads, i%g.KVHeads*g.group
			_, dk, dv := headRows(&g, grads, c, image, first)
			dk.Zero(g.Keys, g.Head.Dim)
			dv.Zero(g.Keys, g.Head.Dim)
			for h := first; h < first+g.group; h++ {
				q, k, v := headRows(&g, in, c, image, h)
				dq, _, _ := headRows(&g, grads, c, image, h)
				dq.Zero(g.Queries, g.Head.Dim)
				at := (image*g.Heads + h) * g.Queries
				attention.Backward(g.head(b.Step, c, image, h), rotary, q, k, v, outputRows(&g, out(c), image, h), outputRows(&g, dy(c), image, h), lse(c)[at:][:g.Queries], dq, dk, dv, scratch[part])
				rotary.Back(dq, g.Queries)
			}
			rotary.Back(dk, g.Keys)
		}
	})
}
