package ops

import (
	"github.com/trainctl/trainctl/core/engine/cpu/bind"
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/pool"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/plan"
)

func init() {
	bind.Implement(op.Upsample, bind.Implementation{F32: bindUpsample[float32], F64: bindUpsample[float64]})
	bind.Implement(op.UpsampleGrad, bind.Implementation{F32: bindUpsample[float32], F64: bindUpsample[float64]})
}

// bindUpsample shares the planes of all images among threads.
func bindUpsample[T kernel.Float](b *bind.Binder[T]) bind.Job {
	a, small, run := b.Step.Attr.(op.UpsampleAttr), b.Step.In[0].Spec.Shape, pool.Upsample[T]
	if b.Step.Op == op.UpsampleGrad {
		small, run = b.Step.Out[0].Spec.Shape, pool.UpsampleGrad[T]
	}
	rows, cols := pool.NewTaps[T](small[2], a.Scale, a.Bilinear), pool.NewTaps[T](small[3], a.Scale, a.Bilinear)
	from := b.In(0)
	to, _ := b.Out(0)
	planes := small[0] * small[1]
	in, out := b.Step.In[0].Spec.Shape.Elems()/planes, len(to)/planes
	return b.Split(planes, max(1, bind.ShareElems/max(in, out)), func(c *plan.Call, _, lo, hi int) {
		run(hi-lo, rows, cols, a.Bilinear, from(c)[lo*in:], to[lo*out:])
	})
}
