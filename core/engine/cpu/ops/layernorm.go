package ops

import (
	"github.com/trainctl/trainctl/core/engine/cpu/bind"
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/elementwise"
	"github.com/trainctl/trainctl/core/engine/kernel/layernorm"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/plan"
)

func init() {
	bind.Implement(op.LayerNorm, bind.Implementation{F32: bindLayerNorm[float32], F64: bindLayerNorm[float64], Half: halfRowNorm, Blocks: bind.Cuts{Along: bind.Images, Of: []int{0, ^0, ^1, ^2}}})
	bind.Implement(op.LayerNormGrad, bind.Implementation{F32: bindLayerNormGrad[float32], F64: bindLayerNormGrad[float64], Half: halfRowNorm, Blocks: bind.Cuts{Along: bind.Images, Of: []int{0, 1, 2, 3, ^0}}, Scratch: rowGradScratch})
}

func bindLayerNorm[T kernel.Float](b *bind.Binder[T]) bind.Job {
	a := b.Step.Attr.(op.LayerNormAttr)
	rows := b.Step.In[0].Spec.Shape.Elems() / a.Cols
	x, weight, bias := b.In(0), b.In(1), b.In(2)
	y, _ := b.Out(0)
	mean, _ := b.Out(1)
	invstd, _ := b.Out(2)
	return b.Split(rows, max(1, bind.ShareElems/a.Cols), func(c *plan.Call, _, lo, hi int) {
		at := lo * a.Cols
		layernorm.LayerNorm(hi-lo, a.Cols, x(c)[at:], weight(c), bias(c), a.Eps, y[at:hi*a.Cols], mean[lo:hi], invstd[lo:hi])
	})
}

func bindLayerNormGrad[T kernel.Float](b *bind.Binder[T]) bind.Job {
	a := b.Step.Attr.(op.LayerNormAttr)
	rows := b.Step.In[0].Spec.Shape.Elems() / a.Cols
	x, dy, mean, invstd, weight := b.In(0), b.In(1), b.In(2), b.In(3), b.In(4)
	g := newRowGrad(b, rows, a.Cols)
	return g.share(b, func(c *plan.Call, _, lo, hi int, dw, db []T, add bool) {
		at, end := lo*a.Cols, hi*a.Cols
		layernorm.LayerNormGrad(hi-lo, a.Cols, x(c)[at:end], dy(c)[at:end], mean(c)[lo:hi], invstd(c)[lo:hi], weight(c), g.dx[at:end], dw, db, add)
	})
}

// rowGrad is the gradient of a norm of rows. Threads share parts of the rows, each of which has
// sums of its own for the gradients of weight and bias.
type rowGrad[T kernel.Float] struct {
	rows, cols, parts int
	dx, dw, db, sums  []T
	add               func(*plan.Call) bool
}

func newRowGrad[T kernel.Float](b *bind.Binder[T], rows, cols int) *rowGrad[T] {
	g := &rowGrad[T]{rows: rows, cols: cols, parts: layernorm.GradParts(rows, cols)}
	if g.dx, g.dw, g.db, g.add = normOut(b); b.Step.Out[0].Present() {
		g.sums = b.Scratch()
	} else {
		g.dx, g.sums = g.dx[:rows*cols], g.dx[rows*cols:]
	}
	return g
}

// rowGradScratch is room for the parts' sums, and for a dx that nobody wants.
func rowGradScratch(s *plan.Step, threads int) int {
	return unwantedGrad(s, threads) + partSums(s, s.Attr.(op.LayerNormAttr).Cols)
}

// sum is what a part adds up for dw, or with 1 for db; nil if that is not wanted.
func (g *rowGrad[T]) sum(of []T, part, i int) []T {
	if of == nil {
		return nil
	}
	return g.sums[(2*part+i)*g.cols:][:g.cols]
}

// share runs grad over the rows [lo, hi) of every part, on the thread of that number, and then adds up the parts in their order.
func (g *rowGrad[T]) share(b *bind.Binder[T], grad func(c *plan.Call, thread, lo, hi int, dw, db []T, add bool)) bind.Job {
	if g.parts == 1 {
		return func(c *plan.Call) { grad(c, 0, 0, g.rows, g.dw, g.db, g.add(c)) }
	}
	all := b.Split(g.parts, 1, func(c *plan.Call, thread, lo, hi int) {
		for p := lo; p < hi; p++ {
			grad(c, thread, g.rows*p/g.parts, g.rows*(p+1)/g.parts, g.sum(g.dw, p, 0), g.sum(g.db, p, 1), false)
		}
	})
	return func(c *plan.Call) {
		all(c)
		for i, d := range [][]T{g.dw, g.db} {
			if !g.add(c) {
				clear(d)
			}
			for p := 0; d != nil && p < g.parts; p++ {
				elementwise.AddTo(d, g.sum(d, p, i))
			}
		}
	}
}
