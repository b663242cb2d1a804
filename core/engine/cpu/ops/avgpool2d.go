package ops

import (
	"github.com/trainctl/trainctl/core/engine/cpu/bind"
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/pool"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/plan"
)

func init() {
	both := bind.Implementation{F32: bindAvgPool[float32], F64: bindAvgPool[float64], Blocks: bind.Cuts{Along: bind.Images, Of: []int{0, ^0}}, Scratch: avgPoolScratch}
	bind.Implement(op.AvgPool, both)
	bind.Implement(op.AvgPoolGrad, both)
}

// avgPoolGeometry is of the larger images of a step: what is pooled, or its gradient.
func avgPoolGeometry(s *plan.Step) pool.Shape {
	if s.Op == op.AvgPoolGrad {
		return poolGeometry(s, s.Out[0].Spec.Shape)
	}
	return poolGeometry(s, s.In[0].Spec.Shape)
}

func avgPoolScratch(s *plan.Step, _ int) int {
	p := avgPoolGeometry(s)
	if s.Op == op.AvgPoolGrad {
		return p.GradScratch()
	}
	return p.Scratch()
}

func bindAvgPool[T kernel.Float](b *bind.Binder[T]) bind.Job {
	p, x, scratch := avgPoolGeometry(b.Step), b.In(0), b.Scratches()
	y, _ := b.Out(0)
	in, out, parts := p.C*p.H*p.W, p.C*p.OutH()*p.OutW(), poolParts(b, p)
	if b.Step.Op == op.AvgPoolGrad {
		return b.Split(p.N, 1, func(c *plan.Call, part, lo, _ int) {
			pool.AvgPool2DGrad(&parts[part], x(c)[lo*out:], y[lo*in:], scratch[part])
		})
	}
	return b.Split(p.N, 1, func(c *plan.Call, part, lo, _ int) {
		pool.AvgPool2D(&parts[part], x(c)[lo*in:], y[lo*out:], scratch[part])
	})
}
