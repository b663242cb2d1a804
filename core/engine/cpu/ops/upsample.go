package ops

import (
	"github.com/trainctl/trainctl/core/engine/cpu/bind"
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/pool"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/plan"
	"github.com/trainctl/trainctl/core/tensor"
)

func init() {
	both := bind.Implementation{F32: bindUpsample[float32], F64: bindUpsample[float64], Scratch: upsampleScratch}
	bind.Implement(op.Upsample, both)
	bind.Implement(op.UpsampleGrad, both)
}

// smallImages is the shape of what is enlarged, or of its gradient.
func smallImages(s *plan.Step) tensor.Shape {
	if s.Op == op.UpsampleGrad {
		return s.Out[0].Spec.Shape
	}
	return s.In[0].Spec.Shape
}

func upsampling[T kernel.Float](s *plan.Step) *pool.Upsampling[T] {
	a, small := s.Attr.(op.UpsampleAttr), smallImages(s)
	return pool.NewUpsampling[T](small[2], small[3], a.Scale, a.Bilinear)
}

func upsampleScratch(s *plan.Step, _ int) int { return upsampling[float32](s).Scratch() }

// bindUpsample shares the planes of all images among threads.
func bindUpsample[T kernel.Float](b *bind.Binder[T]) bind.Job {
	u, small := upsampling[T](b.Step), smallImages(b.Step)
	run := u.Enlarge
	if b.Step.Op == op.UpsampleGrad {
		run = u.Gradient
	}
	from, scratch := b.In(0), b.Scratches()
	to, _ := b.Out(0)
	planes := small[0] * small[1]
	in, out := b.Step.In[0].Spec.Shape.Elems()/planes, len(to)/planes
	return b.Split(planes, max(1, bind.ShareElems/max(in, out)), func(c *plan.Call, part, lo, hi int) {
		run(hi-lo, from(c)[lo*in:], to[lo*out:], scratch[part])
	})
}
