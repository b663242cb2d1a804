package ops

import (
	"github.com/trainctl/trainctl/core/engine/cpu/bind"
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/elementwise"
	"github.com/trainctl/trainctl/core/engine/kernel/loss"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/plan"
)

func init() {
	bind.Implement(op.Softmax, bind.Implementation{F32: bindSoftmax[float32], F64: bindSoftmax[float64]})
	bind.Implement(op.SoftmaxGrad, bind.Implementation{F32: bindSoftmaxGrad[float32], F64: bindSoftmaxGrad[float64]})
}

// softmaxRows runs a kernel over the rows of the last dimension.
func softmaxRows[T kernel.Float](b *bind.Binder[T], row func(x, dy, y []T)) bind.Job {
	shape := b.Step.In[0].Spec.Shape
	cols := shape[len(shape)-1]
	x, dy := b.In(0), b.In(1)
	y, _ := b.Out(0)
	return b.Split(len(y)/cols, max(1, bind.ShareElems/cols), func(c *plan.Call, _, lo, hi int) {
		for i := lo; i < hi; i++ {
			var g []T
			if all := dy(c); all != nil {
				g = all[i*cols:][:cols]
			}
			row(x(c)[i*cols:][:cols], g, y[i*cols:][:cols])
		}
	})
}

func bindSoftmax[T kernel.Float](b *bind.Binder[T]) bind.Job {
	return softmaxRows(b, func(x, _, y []T) {
		elementwise.Scale(y, T(1/loss.ExpSum(x, loss.Largest(x), y)))
	})
}

func bindSoftmaxGrad[T kernel.Float](b *bind.Binder[T]) bind.Job {
	return softmaxRows(b, func(y, dy, dx []T) {
		var dot [1]T
		elementwise.DotRows(1, len(y), y, dy, dot[:])
		elementwise.Mul(dy, y, dx)
		elementwise.Axpy(dx, -dot[0], y)
	})
}
