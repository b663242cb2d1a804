package ops

import (
	"github.com/trainctl/trainctl/core/engine/cpu/bind"
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/elementwise"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/plan"
)

func init() {
	bind.Implement(op.ClassToken, bind.Implementation{F32: bindClassToken[float32], F64: bindClassToken[float64]})
	bind.Implement(op.ClassTokenGrad, bind.Implementation{F32: bindClassTokenGrad[float32], F64: bindClassTokenGrad[float64]})
}

func bindClassToken[T kernel.Float](b *bind.Binder[T]) bind.Job {
	images, width := b.Step.In[0].Spec.Shape[0], b.Step.Out[0].Spec.Shape[2]
	x, token := b.In(0), b.In(1)
	y, _ := b.Out(0)
	each := len(y) / images
	return func(c *plan.Call) {
		for i := range images {
			copy(y[i*each:][:width], token(c))
			copy(y[i*each+width:][:each-width], x(c)[i*(each-width):])
		}
	}
}

func bindClassTokenGrad[T kernel.Float](b *bind.Binder[T]) bind.Job {
	s := b.Step.In[0].Spec.Shape
	images, width, each := s[0], s[2], s[1:].Elems()
	dy := b.In(0)
	dx, _ := b.Out(0)
	dw, add := b.Out(1)
	return func(c *plan.Call) {
		for i := range images {
			row := dy(c)[i*each:][:each]
			if dw != nil {
				elementwise.BiasGrad(1, width, row[:width], dw, i > 0 || add(c))
			}
			if dx != nil {
				copy(dx[i*(each-width):][:each-width], row[width:])
			}
		}
	}
}
