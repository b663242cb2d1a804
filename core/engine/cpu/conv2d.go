package cpu

import (
	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/conv"
	"github.com/trainctl/trainctl/core/engine/kernel/elementwise"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/plan"
	"github.com/trainctl/trainctl/core/tensor"
)

func init() {
	implement(op.Conv2D, implementation{f32: bindConv[float32], f64: bindConv[float64], bf16: nativeConv, half: halfConv, blocks: cuts{along: images, of: []int{0, ^0}}, scratch: convScratch})
	implement(op.Conv2DGradInput, implementation{f32: bindConvGradInput[float32], f64: bindConvGradInput[float64], bf16: nativeConv, half: halfConv, blocks: cuts{along: images, of: []int{0, ^0}}, scratch: convScratch})
	implement(op.Conv2DGradWeight, implementation{f32: bindConvGradWeight[float32], f64: bindConvGradWeight[float64], bf16: nativeConv, half: halfConv, blocks: cuts{along: images, of: []int{0, 1}}, scratch: convTermScratch, sums: true})
	implement(op.Conv2DGradBias, implementation{f32: bindConvGradBias[float32], f64: bindConvGradBias[float64], blocks: cuts{along: channels, of: []int{0, ^0}}, sums: true})
}

// convTermScratch has room for a term of the gradient beside, where threads share images.
func convTermScratch(s *plan.Step, threads int) int {
	n := convScratch(s, threads)
	if shares := convShares(s, threads); len(shares) > 1 && !shares[0].ByChannels() {
		n += s.Out[0].Spec.Shape.Elems()
	}
	return n
}

// convScratch is what a convolution's kernel needs for the largest share.
func convScratch(s *plan.Step, threads int) (n int) {
	shares := convShares(s, threads)
	for i := range shares {
		if scratchSize(s) == 8 {
			n = max(n, convScratchOf[float64](s.Op, &shares[i].Shape))
		} else {
			n = max(n, convScratchOf[float32](s.Op, &shares[i].Shape))
		}
	}
	return n
}

func convScratchOf[T kernel.Float](step graph.Op, p *conv.Shape) int {
	switch step {
	case op.Conv2DGradInput:
		return conv.GradInputScratch[T](p)
	case op.Conv2DGradWeight:
		return conv.GradWeightScratch[T](p)
	}
	return conv.ForwardScratch[T](p)
}

// convShares are the threads' parts of a convolution.
func convShares(s *plan.Step, threads int) []conv.Share {
	d := conv.ToOutput
	switch s.Op {
	case op.Conv2DGradInput:
		d = conv.ToInput
	case op.Conv2DGradWeight:
		d = conv.ToWeight
	}
	if scratchSize(s) == 8 {
		return conv.Shares[float64](convGeometry(s), d, threads)
	}
	return conv.Shares[float32](convGeometry(s), d, threads)
}

// convGeometry reads a convolution's sizes from whichever of its tensors the step has.
func convGeometry(s *plan.Step) conv.Shape {
	var x, w tensor.Shape
	switch s.Op {
	case op.Conv2D:
		x, w = s.In[0].Spec.Shape, s.In[1].Spec.Shape
	case op.Conv2DGradInput:
		x, w = s.Out[0].Spec.Shape, s.In[1].Spec.Shape
	case op.Conv2DGradWeight:
		x, w = s.In[0].Spec.Shape, s.Out[0].Spec.Shape
	}
	a := s.Attr.(op.Conv2DAttr)
	return conv.Shape{
		N: x[0], C: x[1], H: x[2], W: x[3], K: w[0], R: w[2], S: w[3],
		StrideH: a.Stride[0], StrideW: a.Stride[1], PadH: a.Padding[0], PadW: a.Padding[1],
		DilH: a.Dilation[0], DilW: a.Dilation[1], Groups: a.Groups,
	}
}

func bindConv[T kernel.Float](b *binder[T]) job {
	p, x, w, bias, scratch := convGeometry(b.s), b.in(0), b.in(1), b.in(2), b.scratches()
	y, _ := b.out(0)
	in, out := p.C*p.H*p.W, p.K*p.OutH()*p.OutW()
	return b.convJobs(func(c *plan.Call, part int, s *conv.Share) {
		conv.Forward(&s.Shape, x(c)[s.Image*in:], w(c), bias(c), y[s.Image*out:], scratch[part])
	})
}

func bindConvGradInput[T kernel.Float](b *binder[T]) job {
	p, dy, w, scratch := convGeometry(b.s), b.in(0), b.in(1), b.scratches()
	dx, _ := b.out(0)
	in, out := p.C*p.H*p.W, p.K*p.OutH()*p.OutW()
	return b.convJobs(func(c *plan.Call, part int, s *conv.Share) {
		conv.GradInput(&s.Shape, dy(c)[s.Image*out:], w(c), dx[s.Image*in:], scratch[part])
	})
}

// convJobs runs a convolution's shares on the threads.
func (b *binder[T]) convJobs(run func(c *plan.Call, part int, s *conv.Share)) job {
	shares := convShares(b.s, b.m.workers.size())
	return b.split(len(shares), 1, func(c *plan.Call, part, _, _ int) { run(c, part, &shares[part]) })
}

func bindConvGradWeight[T kernel.Float](b *binder[T]) job {
	p, x, dy, scratch := convGeometry(b.s), b.in(0), b.in(1), b.scratches()
	in, out := p.C*p.H*p.W, p.K*p.OutH()*p.OutW()
	if shares := convShares(b.s, b.m.workers.size()); shares[0].ByChannels() {
		dw, add := b.out(0)
		return b.convJobs(func(c *plan.Call, part int, s *conv.Share) {
			conv.GradWeight(&s.Shape, x(c), dy(c), dw, scratch[part], add(c))
		})
	}
	return b.convTerms(p, scratch, func(c *plan.Call, p *conv.Shape, lo int, dw, scratch []T, add bool) {
		conv.GradWeight(p, x(c)[lo*in:], dy(c)[lo*out:], dw, scratch, add)
	})
}

// convTerms lets the first thread write a convolution's weight gradient and the
// others terms of their own at the end of their scratch, which are then added in
// order. run gets its share's geometry and first image.
func (b *binder[T]) convTerms(p conv.Shape, scratch [][]T, run func(c *plan.Call, p *conv.Shape, lo int, dw, scratch []T, add bool)) job {
	dw, add := b.out(0)
	parts := b.convParts(p)
	terms := make([][]T, len(parts))
	for i := range terms {
		if terms[i] = dw; i > 0 {
			terms[i] = scratch[i][len(scratch[i])-len(dw):]
		}
	}
	share := b.split(p.N, 1, func(c *plan.Call, part, lo, _ int) {
		run(c, &parts[part], lo, terms[part], scratch[part], part == 0 && add(c))
	})
	sum := b.split(len(dw), shareElems, func(_ *plan.Call, _, lo, hi int) {
		for _, term := range terms[1:] {
			elementwise.AddTo(dw[lo:hi], term[lo:hi])
		}
	})
	return func(c *plan.Call) {
		share(c)
		if len(terms) > 1 {
			sum(c)
		}
	}
}

// bindConvGradBias needs of the geometry only what dy [N, K, OH, OW] tells.
func bindConvGradBias[T kernel.Float](b *binder[T]) job {
	s := b.s.In[0].Spec.Shape
	p := conv.Shape{N: s[0], C: 1, H: s[2], W: s[3], K: s[1], R: 1, S: 1, StrideH: 1, StrideW: 1}
	dy := b.in(0)
	db, add := b.out(0)
	return func(c *plan.Call) { conv.GradBias(&p, dy(c), db, add(c)) }
}

func nativeConv(s *plan.Step) native {
	p := convGeometry(s)
	switch {
	case !isBF16(s.In[1]):
	case s.Op == op.Conv2D && conv.FastForwardBF16(&p) && isBF16(s.Out[0]):
		return native{bind: bindConvBF16, scratch: conv.BF16Scratch(&p), direct: []int{0, 1, ^0}}
	case s.Op == op.Conv2DGradInput && conv.FastGradInputBF16(&p) && isBF16(s.Out[0]):
		return native{bind: bindConvGradInputBF16, scratch: conv.BF16Scratch(&p), direct: []int{0, 1, ^0}}
	case s.Op == op.Conv2DGradWeight && conv.FastGradWeightBF16(&p):
		return native{bind: bindConvGradWeightBF16, scratch: conv.BF16Scratch(&p), term: s.Out[0].Spec.Shape.Elems(), direct: []int{0, 1}}
	}
	return native{}
}

func bindConvBF16(b *binder[float32]) job {
	p, x, w, bias, scratch := convGeometry(b.s), b.half(0), b.half(1), b.in(2), b.scratches()
	y, in, out, parts := b.halfOut(0), p.C*p.H*p.W, p.K*p.OutH()*p.OutW(), b.convParts(p)
	return b.split(p.N, 1, func(c *plan.Call, part, lo, _ int) {
		conv.ForwardBF16(&parts[part], x(c)[lo*in:], w(c), bias(c), y[lo*out:], scratch[part])
	})
}

func bindConvGradInputBF16(b *binder[float32]) job {
	p, dy, w, scratch := convGeometry(b.s), b.half(0), b.half(1), b.scratches()
	dx, in, out, parts := b.halfOut(0), p.C*p.H*p.W, p.K*p.OutH()*p.OutW(), b.convParts(p)
	return b.split(p.N, 1, func(c *plan.Call, part, lo, _ int) {
		conv.GradInputBF16(&parts[part], dy(c)[lo*out:], w(c), dx[lo*in:], scratch[part])
	})
}

func bindConvGradWeightBF16(b *binder[float32]) job {
	p, x, dy, scratch := convGeometry(b.s), b.half(0), b.half(1), b.scratches()
	in, out := p.C*p.H*p.W, p.K*p.OutH()*p.OutW()
	return b.convTerms(p, scratch, func(c *plan.Call, p *conv.Shape, lo int, dw, scratch []float32, add bool) {
		conv.GradWeightBF16(p, x(c)[lo*in:], dy(c)[lo*out:], dw, scratch, add)
	})
}
