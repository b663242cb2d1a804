package ops

import (
	"github.com/trainctl/trainctl/core/engine/cpu/bind"
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/norm"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/plan"
)

func init() {
	bind.Implement(op.GroupNorm, bind.Implementation{F32: bindGroupNorm[float32], F64: bindGroupNorm[float64], Half: halfGroupNorm})
	bind.Implement(op.GroupNormGrad, bind.Implementation{F32: bindGroupNormGrad[float32], F64: bindGroupNormGrad[float64], Half: halfGroupNorm, Scratch: unwantedGrad})
}

func groupShape(s *plan.Step) norm.GroupShape {
	n, c, hw := planes(s.In[0].Spec.Shape)
	return norm.GroupShape{N: n, C: c, HW: hw, Groups: s.Attr.(op.GroupNormAttr).Groups}
}

func bindGroupNorm[T kernel.Float](b *bind.Binder[T]) bind.Job {
	a, s := b.Step.Attr.(op.GroupNormAttr), groupShape(b.Step)
	x, weight, bias := b.In(0), b.In(1), b.In(2)
	y, _ := b.Out(0)
	mean, _ := b.Out(1)
	invstd, _ := b.Out(2)
	sample := s.C * s.HW
	return b.Split(s.N, max(1, bind.ShareElems/sample), func(c *plan.Call, _, lo, hi int) {
		part := s
		part.N = hi - lo
		norm.GroupNorm(&part, x(c)[lo*sample:], weight(c), bias(c), a.Eps, y[lo*sample:], mean[lo*s.Groups:], invstd[lo*s.Groups:])
	})
}

func bindGroupNormGrad[T kernel.Float](b *bind.Binder[T]) bind.Job {
	s := groupShape(b.Step)
	x, dy, mean, invstd, weight := b.In(0), b.In(1), b.In(2), b.In(3), b.In(4)
	dx, dw, db, add := normOut(b)
	return b.Split(s.Groups, 1, func(c *plan.Call, _, lo, hi int) {
		norm.GroupNormGradOf(lo, hi, &s, x(c), dy(c), mean(c), invstd(c), weight(c), dx, dw, db, add(c))
	})
}
