package ops

import (
	"github.com/trainctl/trainctl/core/engine/cpu/bind"
	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/engine/kernel/conv"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/plan"
	"github.com/trainctl/trainctl/core/tensor"
)

var directions = map[graph.Op]conv.Direction{op.Conv2D: conv.ToOutput, op.Conv2DGradInput: conv.ToInput, op.Conv2DGradWeight: conv.ToWeight}

// halfConv takes convolutions whose images and filters are all of one half type, if they go by Winograd.
func halfConv(s *plan.Step) bind.Native {
	d, p := s.In[0].Spec.DType, convGeometry(s)
	if s.In[1].Spec.DType != d || !conv.TakesHalf(&p, directions[s.Op]) {
		return bind.Native{}
	}
	n := bind.Native{Direct: []int{0, 1}}
	if s.Op == op.Conv2DGradWeight {
		n.Term = s.Out[0].Spec.Shape.Elems()
	} else if n.Direct = append(n.Direct, ^0); s.Out[0].Spec.DType != d {
		return bind.Native{}
	}
	if d == tensor.F16 {
		n.Scratch, n.Bind = conv.HalfScratch[conv.F16](&p), bindHalfConv[conv.F16](s.Op)
	} else {
		n.Scratch, n.Bind = conv.HalfScratch[uint16](&p), bindHalfConv[uint16](s.Op)
	}
	return n
}

func bindHalfConv[H conv.Half](o graph.Op) func(*bind.Binder[float32]) bind.Job {
	switch o {
	case op.Conv2DGradInput:
		return bindHalfConvGradInput[H]
	case op.Conv2DGradWeight:
		return bindHalfConvGradWeight[H]
	}
	return bindHalfConvForward[H]
}

func bindHalfConvForward[H conv.Half](b *bind.Binder[float32]) bind.Job {
	p, x, w, bias, scratch := convGeometry(b.Step), bind.Halves[H](b, 0), bind.Halves[H](b, 1), b.In(2), b.Scratches()
	y, in, out, parts := tensor.View[H](b.Memory.Fixed(&b.Step.Out[0])), p.C*p.H*p.W, p.K*p.OutH()*p.OutW(), b.ConvParts(p)
	return b.Split(p.N, 1, func(c *plan.Call, part, lo, _ int) {
		conv.ForwardHalf(&parts[part], x(c)[lo*in:], w(c), bias(c), y[lo*out:], scratch[part])
	})
}

func bindHalfConvGradInput[H conv.Half](b *bind.Binder[float32]) bind.Job {
	p, dy, w, scratch := convGeometry(b.Step), bind.Halves[H](b, 0), bind.Halves[H](b, 1), b.Scratches()
	dx, in, out, parts := tensor.View[H](b.Memory.Fixed(&b.Step.Out[0])), p.C*p.H*p.W, p.K*p.OutH()*p.OutW(), b.ConvParts(p)
	return b.Split(p.N, 1, func(c *plan.Call, part, lo, _ int) {
		conv.GradInputHalf(&parts[part], dy(c)[lo*out:], w(c), dx[lo*in:], scratch[part])
	})
}

func bindHalfConvGradWeight[H conv.Half](b *bind.Binder[float32]) bind.Job {
	p, x, dy, scratch := convGeometry(b.Step), bind.Halves[H](b, 0), bind.Halves[H](b, 1), b.Scratches()
	in, out := p.C*p.H*p.W, p.K*p.OutH()*p.OutW()
	return convTerms(b, p, scratch, func(c *plan.Call, p *conv.Shape, lo int, dw, scratch []float32, add bool) {
		conv.GradWeightHalf(p, x(c)[lo*in:], dy(c)[lo*out:], dw, scratch, add)
	})
}
