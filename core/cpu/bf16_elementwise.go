package cpu

import (
	"github.com/trainctl/trainctl/core/graph"
	"github.com/trainctl/trainctl/core/kernel"
	"github.com/trainctl/trainctl/core/plan"
)

// nativeElementwise takes the functions of one or two slices, all bfloat16.
func nativeElementwise(s *plan.Step) native {
	if !isBF16(s.Out[0]) || s.Out[0].Place != plan.PlaceArena {
		return native{}
	}
	switch s.Op {
	case graph.ReLUOp:
		return native{direct: []int{0, ^0}, bind: func(b *binder[float32]) job {
			x, y := b.half(0), b.halfOut(0)
			return func(c *plan.Call) { kernel.ReLUBF16(x(c)[:len(y)], y) }
		}}
	case graph.ReLUGradOp:
		return nativeBinary(s, kernel.ReLUGradBF16)
	case graph.AddOp:
		return nativeBinary(s, kernel.AddBF16)
	}
	return native{}
}

func nativeBinary(s *plan.Step, f func(a, b, dst []uint16)) native {
	if !isBF16(s.In[1]) {
		return native{}
	}
	return native{direct: []int{0, 1, ^0}, bind: func(b *binder[float32]) job {
		x, y, dst := b.half(0), b.half(1), b.halfOut(0)
		return func(c *plan.Call) { f(x(c)[:len(dst)], y(c), dst) }
	}}
}
