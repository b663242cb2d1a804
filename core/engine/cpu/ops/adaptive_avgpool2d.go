package ops

import (
	"github.com/trainctl/trainctl/core/engine/cpu/bind"
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/pool/adaptive"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/plan"
)

func init() {
	both := bind.Implementation{F32: bindAdaptivePool[float32], F64: bindAdaptivePool[float64], Blocks: bind.Cuts{Along: bind.Images, Of: []int{0, ^0}}, Scratch: adaptiveScratch}
	bind.Implement(op.AdaptiveAvgPool, both)
	bind.Implement(op.AdaptiveAvgPoolGrad, both)
}

// adaptiveImages are the shapes of what is pooled, or of its gradient, and of the outputs.
func adaptiveImages(s *plan.Step) (image, pooled []int) {
	if s.Op == op.AdaptiveAvgPoolGrad {
		return s.Out[0].Spec.Shape, s.In[0].Spec.Shape
	}
	return s.In[0].Spec.Shape, s.Out[0].Spec.Shape
}

func adaptiveScratch(s *plan.Step, _ int) int {
	image, pooled := adaptiveImages(s)
	return adaptive.Scratch(image[2], image[3], pooled[2], pooled[3])
}

func bindAdaptivePool[T kernel.Float](b *bind.Binder[T]) bind.Job {
	image, pooled := adaptiveImages(b.Step)
	x, scratch := b.In(0), b.Scratches()
	y, _ := b.Out(0)
	c, h, w, oh, ow := image[1], image[2], image[3], pooled[2], pooled[3]
	in, out := c*h*w, c*oh*ow
	if b.Step.Op == op.AdaptiveAvgPoolGrad {
		return b.Split(image[0], 1, func(call *plan.Call, part, lo, hi int) {
			adaptive.AvgPool2DGrad(hi-lo, c, h, w, oh, ow, x(call)[lo*out:], y[lo*in:], scratch[part])
		})
	}
	return b.Split(image[0], 1, func(call *plan.Call, part, lo, hi int) {
		adaptive.AvgPool2D(hi-lo, c, h, w, oh, ow, x(call)[lo*in:], y[lo*out:], scratch[part])
	})
}
