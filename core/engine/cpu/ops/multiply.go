package ops

import (
	"github.com/trainctl/trainctl/core/engine/cpu/bind"
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/elementwise"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/plan"
)

func init() {
	both := bind.Implementation{F32: bindMultiply[float32], F64: bindMultiply[float64]}
	bind.Implement(op.Multiply, both)
	bind.Implement(op.MultiplyGrad, both)
}

// bindMultiply multiplies tensors of one shape, or rows of the first by elements
// of the second; where the output is the smaller one, it takes the rows' dot products.
func bindMultiply[T kernel.Float](b *bind.Binder[T]) bind.Job {
	x, factor := b.In(0), b.In(1)
	y, _ := b.Out(0)
	n := b.Step.In[0].Spec.Shape.Elems()
	rows := min(len(y), b.Step.In[1].Spec.Shape.Elems())
	cols := n / rows
	return b.Split(rows, max(1, bind.ShareElems/cols), func(c *plan.Call, _, lo, hi int) {
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
