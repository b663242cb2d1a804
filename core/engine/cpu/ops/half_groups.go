package ops

import (
	"github.com/trainctl/trainctl/core/engine/cpu/bind"
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/norm"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/plan"
)

// halfGroupNorm takes group norms of one half type.
func halfGroupNorm(s *plan.Step) bind.Native {
	shape := groupShape(s)
	n := bind.Native{Bind: bindHalfGroupNorm, Scratch: shape.HalfRoom(), Direct: []int{0, ^0}}
	if s.Op == op.GroupNormGrad {
		n = bind.Native{Bind: bindHalfGroupNormGrad, Scratch: 2 * shape.HalfRoom(), Direct: []int{0, 1, ^0}}
	}
	if kernel.Current() == kernel.Generic || !oneType(s, n.Direct) {
		return bind.Native{}
	}
	return n
}

func bindHalfGroupNorm(b *bind.Binder[float32]) bind.Job {
	a, s, d := b.Step.Attr.(op.GroupNormAttr), groupShape(b.Step), b.Step.In[0].Spec.DType
	x, weight, bias, y, room := b.Half(0), b.In(1), b.In(2), b.HalfOut(0), b.Scratches()
	mean, _ := b.Out(1)
	invstd, _ := b.Out(2)
	sample := s.C * s.HW
	return b.Split(s.N, max(1, bind.ShareElems/sample), func(c *plan.Call, thread, lo, hi int) {
		part := s
		part.N = hi - lo
		norm.GroupNormHalf(d, &part, x(c)[lo*sample:], weight(c), bias(c), a.Eps, y[lo*sample:], mean[lo*s.Groups:], invstd[lo*s.Groups:], room[thread])
	})
}

func bindHalfGroupNormGrad(b *bind.Binder[float32]) bind.Job {
	s, d := groupShape(b.Step), b.Step.In[0].Spec.DType
	x, dy, mean, invstd, weight, room := b.Half(0), b.Half(1), b.In(2), b.In(3), b.In(4), b.Scratches()
	dx, dw, db, add := normOutBF16(b)
	return b.Split(s.Groups, 1, func(c *plan.Call, thread, lo, hi int) {
		norm.GroupNormGradHalfOf(d, lo, hi, &s, x(c), dy(c), mean(c), invstd(c), weight(c), dx, dw, db, add(c), room[thread])
	})
}
