package ops

import (
	"github.com/trainctl/trainctl/core/engine/cpu/bind"
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/attention"
	"github.com/trainctl/trainctl/core/engine/plan"
)

// keptOf is the geometry of an attention to keys that are kept, and where they lie among the inputs.
func keptOf(s *plan.Step) (g heads, at, most int) {
	at = len(s.In) - 2
	return headsOf(s), at, s.In[at].Spec.Shape[0]
}

func keptScratch(s *plan.Step) int {
	g, _, most := keptOf(s)
	h := attention.Head{Queries: g.Queries, Keys: most, Dim: g.Head.Dim}
	return (g.Queries+1)*(g.Head.Dim+16) + max(attention.ForwardScratch(h), attention.QueryScratch(most, g.Head.Dim))
}

// bindKeptAttention adds the keys and values of some positions to those that are kept, keys
// turned by their positions, and attends to all of them. Query heads that share a key head
// stay on one thread.
func bindKeptAttention[T kernel.Float](b *bind.Binder[T]) bind.Job {
	g, at, most := keptOf(b.Step)
	in, keys, values, scratch := ins(b, at), b.State(at), b.State(at+1), b.Scratches()
	y, _ := b.Out(0)
	dim, width := g.Head.Dim, g.KVHeads*g.Head.Dim
	var rotary *attention.Rotary[T]
	if g.RopeTheta != 0 {
		frequencies, gain := g.Frequencies()
		rotary = attention.NewRotary[T](frequencies, gain, most)
	}
	return b.Split(g.KVHeads, 1, func(c *plan.Call, part, lo, hi int) {
		for kv := lo; kv < hi; kv++ {
			k, v := attention.Rows[T]{Data: keys[kv*dim:], Stride: width}, attention.Rows[T]{Data: values[kv*dim:], Stride: width}
			for h := kv * g.group; h < (kv+1)*g.group; h++ {
				queries, newKeys, newValues := headRows(&g, in, c, 0, h)
				if h == kv*g.group {
					rotary.Turn(newKeys, k.From(c.Position), c.Position, g.Queries, dim)
					(*attention.Rotary[T])(nil).Turn(newValues, v.From(c.Position), c.Position, g.Queries, dim)
				}
				attendKept(&g, rotary, c.Position, queries, k, v, outputRows(&g, y, 0, h), scratch[part])
			}
		}
	})
}

// attendKept is the attention of one head's queries, from a position on, to the keys up to theirs.
func attendKept[T kernel.Float](g *heads, rotary *attention.Rotary[T], first int, q, k, v, out attention.Rows[T], scratch []T) {
	dim, room := g.Head.Dim, g.Queries*g.Head.Dim
	turned, lse, rest := attention.Rows[T]{Data: scratch[:room], Stride: dim}, scratch[room:][:g.Queries], scratch[(g.Queries+1)*(dim+16):]
	rotary.Turn(q, turned, first, g.Queries, dim)
	if g.Queries == 1 {
		attention.Query(turned.Data, first+1, k, v, out.Data, rest)
		return
	}
	h := attention.Head{Queries: g.Queries, Keys: first + g.Queries, Dim: dim, Causal: true, First: first}
	attention.Forward(h, nil, turned, k, v, out, lse, rest)
}
