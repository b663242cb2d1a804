package cpu

import (
	"github.com/trainctl/trainctl/core/kernel"
	"github.com/trainctl/trainctl/core/op"
	"github.com/trainctl/trainctl/core/plan"
)

func nativeConv(s *plan.Step) native {
	p := convGeometry(s)
	switch {
	case !isBF16(s.In[1]):
	case s.Op == op.Conv2D && p.ForwardBF16() && isBF16(s.Out[0]):
		return native{bind: bindConvBF16, scratch: kernel.ConvBF16Scratch(&p), direct: []int{0, 1, ^0}}
	case s.Op == op.Conv2DGradInput && p.GradInputBF16() && isBF16(s.Out[0]):
		return native{bind: bindConvGradInputBF16, scratch: kernel.ConvBF16Scratch(&p), direct: []int{0, 1, ^0}}
	case s.Op == op.Conv2DGradWeight && p.GradWeightBF16():
		return native{bind: bindConvGradWeightBF16, scratch: kernel.ConvBF16Scratch(&p), term: s.Out[0].Spec.Shape.Elems(), direct: []int{0, 1}}
	}
	return native{}
}

func bindConvBF16(b *binder[float32]) job {
	p, x, w, bias, scratch := convGeometry(b.s), b.half(0), b.half(1), b.in(2), b.scratches()
	y, in, out, parts := b.halfOut(0), p.C*p.H*p.W, p.K*p.OutH()*p.OutW(), b.convParts(p)
	return b.split(p.N, 1, func(c *plan.Call, part, lo, _ int) {
		kernel.Conv2DBF16(&parts[part], x(c)[lo*in:], w(c), bias(c), y[lo*out:], scratch[part])
	})
}

func bindConvGradInputBF16(b *binder[float32]) job {
	p, dy, w, scratch := convGeometry(b.s), b.half(0), b.half(1), b.scratches()
	dx, in, out, parts := b.halfOut(0), p.C*p.H*p.W, p.K*p.OutH()*p.OutW(), b.convParts(p)
	return b.split(p.N, 1, func(c *plan.Call, part, lo, _ int) {
		kernel.Conv2DGradInputBF16(&parts[part], dy(c)[lo*out:], w(c), dx[lo*in:], scratch[part])
	})
}

func bindConvGradWeightBF16(b *binder[float32]) job {
	p, x, dy, scratch := convGeometry(b.s), b.half(0), b.half(1), b.scratches()
	in, out := p.C*p.H*p.W, p.K*p.OutH()*p.OutW()
	return b.convTerms(p, scratch, func(c *plan.Call, p *kernel.Conv, lo int, dw, scratch []float32, add bool) {
		kernel.Conv2DGradWeightBF16(p, x(c)[lo*in:], dy(c)[lo*out:], dw, scratch, add)
	})
}
