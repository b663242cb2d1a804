package cpu

import (
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/norm"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/plan"
)

func init() {
	implement(op.GroupNorm, implementation{f32: bindGroupNorm[float32], f64: bindGroupNorm[float64]})
	implement(op.GroupNormGrad, implementation{f32: bindGroupNormGrad[float32], f64: bindGroupNormGrad[float64], scratch: unwantedGrad})
}

func groupShape(s *plan.Step) norm.GroupShape {
	n, c, hw := planes(s.In[0].Spec.Shape)
	return norm.GroupShape{N: n, C: c, HW: hw, Groups: s.Attr.(op.GroupNormAttr).Groups}
}

func bindGroupNorm[T kernel.Float](b *binder[T]) job {
	a, s := b.s.Attr.(op.GroupNormAttr), groupShape(b.s)
	x, weight, bias := b.in(0), b.in(1), b.in(2)
	y, _ := b.out(0)
	mean, _ := b.out(1)
	invstd, _ := b.out(2)
	sample := s.C * s.HW
	return b.split(s.N, max(1, shareElems/sample), func(c *plan.Call, _, lo, hi int) {
		part := s
		part.N = hi - lo
		norm.GroupNorm(&part, x(c)[lo*sample:], weight(c), bias(c), a.Eps, y[lo*sample:], mean[lo*s.Groups:], invstd[lo*s.Groups:])
	})
}

func bindGroupNormGrad[T kernel.Float](b *binder[T]) job {
	s := groupShape(b.s)
	x, dy, mean, invstd, weight := b.in(0), b.in(1), b.in(2), b.in(3), b.in(4)
	dx, dw, db, add := b.normOut()
	return b.split(s.Groups, 1, func(c *plan.Call, _, lo, hi int) {
		norm.GroupNormGradOf(lo, hi, &s, x(c), dy(c), mean(c), invstd(c), weight(c), dx, dw, db, add(c))
	})
}
