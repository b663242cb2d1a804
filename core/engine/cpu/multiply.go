package cpu

import (
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/elementwise"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/plan"
)

func init() {
	both := implementation{f32: bindMultiply[float32], f64: bindMultiply[float64]}
	implement(op.Multiply, both)
	implement(op.MultiplyGrad, both)
}

// bindMultiply multiplies tensors of one shape, or rows of the first by elements
// of the second; where the output is the smaller one, it takes the rows' dot products.
func bindMultiply[T kernel.Float](b *binder[T]) job {
	x, factor := b.in(0), b.in(1)
	y, _ := b.out(0)
	n := b.s.In[0].Spec.Shape.Elems()
	rows := min(len(y), b.s.In[1].Spec.Shape.Elems())
	cols := n / rows
	return b.split(rows, max(1, shareElems/cols), func(c *plan.Call, _, lo, hi int) {
		a, f := x(c)[lo*cols:hi*cols], factor(c)
		switch {
		case cols == 1:
			elementwise.Mul(a, f[lo:hi], y[lo:hi])
		case len(y) == n:
			elementwise.MulRows(hi-lo, cols, a, f[lo:hi], y[lo*cols:hi*cols])
		default:
			elementwise.DotRows(hi-lo, cols, a, f[lo*cols:hi*cols], y[lo:hi])
		}
	})
}
