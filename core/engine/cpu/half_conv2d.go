package cpu

import (
	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/engine/kernel/conv"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/plan"
	"github.com/trainctl/trainctl/core/tensor"
)

var directions = map[graph.Op]conv.Direction{op.Conv2D: conv.ToOutput, op.Conv2DGradInput: conv.ToInput, op.Conv2DGradWeight: conv.ToWeight}

// halfConv takes convolutions whose images and filters are all of one half type, if they go by Winograd.
func halfConv(s *plan.Step) native {
	d, p := s.In[0].Spec.DType, convGeometry(s)
	if s.In[1].Spec.DType != d || !conv.TakesHalf(&p, directions[s.Op]) {
		return native{}
	}
	n := native{direct: []int{0, 1}}
	if s.Op == op.Conv2DGradWeight {
		n.term = s.Out[0].Spec.Shape.Elems()
	} else if n.direct = append(n.direct, ^0); s.Out[0].Spec.DType != d {
		return native{}
	}
	if d == tensor.F16 {
		n.scratch, n.bind = conv.HalfScratch[conv.F16](&p), bindHalfConv[conv.F16](s.Op)
	} else {
		n.scratch, n.bind = conv.HalfScratch[uint16](&p), bindHalfConv[uint16](s.Op)
	}
	return n
}

func bindHalfConv[H conv.Half](o graph.Op) func(*binder[float32]) job {
	switch o {
	case op.Conv2DGradInput:
		return bindHalfConvGradInput[H]
	case op.Conv2DGradWeight:
		return bindHalfConvGradWeight[H]
	}
	return bindHalfConvForward[H]
}

func bindHalfConvForward[H conv.Half](b *binder[float32]) job {
	p, x, w, bias, scratch := convGeometry(b.s), halves[H](b, 0), halves[H](b, 1), b.in(2), b.scratches()
	y, in, out, parts := tensor.View[H](b.m.fixed(&b.s.Out[0])), p.C*p.H*p.W, p.K*p.OutH()*p.OutW(), b.convParts(p)
	return b.split(p.N, 1, func(c *plan.Call, part, lo, _ int) {
		conv.ForwardHalf(&parts[part], x(c)[lo*in:], w(c), bias(c), y[lo*out:], scratch[part])
	})
}

func bindHalfConvGradInput[H conv.Half](b *binder[float32]) job {
	p, dy, w, scratch := convGeometry(b.s), halves[H](b, 0), halves[H](b, 1), b.scratches()
	dx, in, out, parts := tensor.View[H](b.m.fixed(&b.s.Out[0])), p.C*p.H*p.W, p.K*p.OutH()*p.OutW(), b.convParts(p)
	return b.split(p.N, 1, func(c *plan.Call, part, lo, _ int) {
		conv.GradInputHalf(&parts[part], dy(c)[lo*out:], w(c), dx[lo*in:], scratch[part])
	})
}

func bindHalfConvGradWeight[H conv.Half](b *binder[float32]) job {
	p, x, dy, scratch := convGeometry(b.s), halves[H](b, 0), halves[H](b, 1), b.scratches()
	in, out := p.C*p.H*p.W, p.K*p.OutH()*p.OutW()
	return b.convTerms(p, scratch, func(c *plan.Call, p *conv.Shape, lo int, dw, scratch []float32, add bool) {
		conv.GradWeightHalf(p, x(c)[lo*in:], dy(c)[lo*out:], dw, scratch, add)
	})
}
