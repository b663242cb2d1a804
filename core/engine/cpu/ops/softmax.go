package ops

import (
	"github.com/trainctl/trainctl/core/engine/cpu/bind"
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/loss"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/plan"
)

func init() {
	bind.Implement(op.Softmax, bind.Implementation{F32: bindSoftmax[float32], F64: bindSoftmax[float64]})
	bind.Implement(op.SoftmaxGrad, bind.Implementation{F32: bindSoftmaxGrad[float32], F64: bindSoftmaxGrad[float64]})
}

// softmaxRows runs a kernel over the rows of the last dimension.
func softmaxRows[T kernel.Float](b *bind.Binder[T], run func(rows, cols int, x, dy, y []T)) bind.Job {
	shape := b.Step.In[0].Spec.Shape
	cols := shape[len(shape)-1]
	x, dy := b.In(0), b.In(1)
	y, _ := b.Out(0)
	return b.Split(len(y)/cols, max(1, bind.ShareElems/cols), func(c *plan.Call, _, lo, hi int) {
		part := func(x []T) []T {
			if x == nil {
				return nil
			}
			return x[lo*cols : hi*cols]
		}
		run(hi-lo, cols, part(x(c)), part(dy(c)), part(y))
	})
}

func bindSoftmax[T kernel.Float](b *bind.Binder[T]) bind.Job {
	return softmaxRows(b, func(rows, cols int, x, _, y []T) { loss.Softmax(rows, cols, x, y) })
}

func bindSoftmaxGrad[T kernel.Float](b *bind.Binder[T]) bind.Job {
	return softmaxRows(b, loss.SoftmaxGrad)
}
