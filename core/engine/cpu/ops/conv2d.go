package ops

import (
	"github.com/trainctl/trainctl/core/engine/cpu/bind"
	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/conv"
	"github.com/trainctl/trainctl/core/engine/kernel/elementwise"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/plan"
	"github.com/trainctl/trainctl/core/tensor"
)

func init() {
	bind.Implement(op.Conv2D, bind.Implementation{F32: bindConv[float32], F64: bindConv[float64], BF16: nativeConv, Half: halfConv, Blocks: bind.Cuts{Along: bind.Images, Of: []int{0, ^0}}, Scratch: convScratch, WideWeight: true})
	bind.Implement(op.Conv2DGradInput, bind.Implementation{F32: bindConvGradInput[float32], F64: bindConvGradInput[float64], BF16: nativeConv, Half: halfConv, Blocks: bind.Cuts{Along: bind.Images, Of: []int{0, ^0}}, Scratch: convScratch, WideWeight: true})
	bind.Implement(op.Conv2DGradWeight, bind.Implementation{F32: bindConvGradWeight[float32], F64: bindConvGradWeight[float64], BF16: nativeConv, Half: halfConv, Blocks: bind.Cuts{Along: bind.Images, Of: []int{0, 1}}, Scratch: convTermScratch, Sums: true})
	bind.Implement(op.Conv2DGradBias, bind.Implementation{F32: bindConvGradBias[float32], F64: bindConvGradBias[float64], Blocks: bind.Cuts{Along: bind.Channels, Of: []int{0, ^0}}, Sums: true})
}

// convTermScratch has room for a term of the gradient beside, where threads share images.
func convTermScratch(s *plan.Step, threads int) int {
	n := convScratch(s, threads)
	if p := convGeometry(s); min(threads, p.N) > 1 && convTeam(s, threads) == nil {
		n += s.Out[0].Spec.Shape.Elems()
	}
	return n
}

// convScratch is what a convolution's kernel needs on each thread, for the largest share of
// the images, or as its part of a team's.
func convScratch(s *plan.Step, threads int) int {
	if team := convTeam(s, threads); team != nil {
		return kernel.CeilDiv(team.Scratch(), threads)
	}
	p := convGeometry(s)
	p = p.Share(kernel.CeilDiv(p.N, threads))
	if bind.ScratchSize(s) == 8 {
		return convScratchOf[float64](s.Op, &p)
	}
	return convScratchOf[float32](s.Op, &p)
}

func convScratchOf[T kernel.Float](step graph.Op, p *conv.Shape) int {
	switch directions[step] {
	case conv.ToInput:
		return conv.GradInputScratch[T](p)
	case conv.ToWeight:
		return conv.GradWeightScratch[T](p)
	}
	return conv.ForwardScratch[T](p)
}

// convTeam is the threads as a team, nil if they share images.
func convTeam(s *plan.Step, threads int) *conv.Team {
	p := convGeometry(s)
	if bind.ScratchSize(s) == 8 {
		return conv.NewTeam[float64](&p, directions[s.Op], threads)
	}
	return conv.NewTeam[float32](&p, directions[s.Op], threads)
}

// convGeometry reads a convolution's sizes from whichever of its tensors the step has.
func convGeometry(s *plan.Step) conv.Shape {
	var x, w tensor.Shape
	switch s.Op {
	case op.Conv2D:
		x, w = s.In[0].Spec.Shape, s.In[1].Spec.Shape
	case op.Conv2DGradInput, op.ConvTranspose2D:
		x, w = s.Out[0].Spec.Shape, s.In[1].Spec.Shape
	case op.Conv2DGradWeight:
		x, w = s.In[0].Spec.Shape, s.Out[0].Spec.Shape
	}
	a := s.Attr.(op.Conv2DAttr)
	x, w = op.TwoD(x), op.TwoD(w)
	return conv.Shape{
		N: x[0], C: x[1], H: x[2], W: x[3], K: w[0], R: w[2], S: w[3],
		StrideH: a.Stride[0], StrideW: a.Stride[1], PadH: a.Padding[0], PadW: a.Padding[1],
		DilH: a.Dilation[0], DilW: a.Dilation[1], Groups: a.Groups, Batch: s.Batch,
	}
}

func bindConv[T kernel.Float](b *bind.Binder[T]) bind.Job {
	p, x, w, bias := convGeometry(b.Step), b.In(0), b.In(1), b.In(2)
	y, _ := b.Out(0)
	if team := convTeam(b.Step, b.Memory.Workers.Size()); team != nil {
		return convolveTogether(b, team, x, w, bias, y)
	}
	in, out, parts, scratch := p.C*p.H*p.W, p.K*p.OutH()*p.OutW(), b.ConvParts(p), b.Scratches()
	return b.Split(p.N, 1, func(c *plan.Call, part, lo, _ int) {
		conv.Forward(&parts[part], x(c)[lo*in:], w(c), bias(c), y[lo*out:], scratch[part])
	})
}

func bindConvGradInput[T kernel.Float](b *bind.Binder[T]) bind.Job {
	p, dy, w := convGeometry(b.Step), b.In(0), b.In(1)
	dx, _ := b.Out(0)
	if team := convTeam(b.Step, b.Memory.Workers.Size()); team != nil {
		return convolveTogether(b, team, dy, w, func(*plan.Call) []T { return nil }, dx)
	}
	in, out, parts, scratch := p.C*p.H*p.W, p.K*p.OutH()*p.OutW(), b.ConvParts(p), b.Scratches()
	return b.Split(p.N, 1, func(c *plan.Call, part, lo, _ int) {
		conv.GradInput(&parts[part], dy(c)[lo*out:], w(c), dx[lo*in:], scratch[part])
	})
}

func bindConvGradWeight[T kernel.Float](b *bind.Binder[T]) bind.Job {
	p, x, dy := convGeometry(b.Step), b.In(0), b.In(1)
	if team := convTeam(b.Step, b.Memory.Workers.Size()); team != nil {
		dw, add := b.Out(0)
		return inTeam(b, team, func(c *plan.Call, member, group int) {
			team.Read(member, group, kernel.As32(x(c)), kernel.As32(dy(c)))
		}, func(c *plan.Call, member, group int) {
			team.WriteWeights(member, group, kernel.As32(dw), add(c))
		})
	}
	in, out := p.C*p.H*p.W, p.K*p.OutH()*p.OutW()
	return convTerms(b, p, b.Scratches(), func(c *plan.Call, p *conv.Shape, lo int, dw, scratch []T, add bool) {
		conv.GradWeight(p, x(c)[lo*in:], dy(c)[lo*out:], dw, scratch, add)
	})
}

// convolveTogether binds a convolution of x, or of its gradient, that a team computes.
func convolveTogether[T kernel.Float](b *bind.Binder[T], team *conv.Team, x, w, bias func(*plan.Call) []T, y []T) bind.Job {
	return inTeam(b, team, func(c *plan.Call, member, group int) {
		team.Read(member, group, kernel.As32(x(c)), nil)
	}, func(c *plan.Call, member, group int) {
		team.Write(member, group, kernel.As32(w(c)), kernel.As32(bias(c)), kernel.As32(y))
	})
}

// inTeam runs both parts of each group of a team's convolution, one after the other.
func inTeam[T kernel.Float](b *bind.Binder[T], team *conv.Team, read, write func(c *plan.Call, member, group int)) bind.Job {
	team.Reserve(kernel.As32(b.WholeScratch()))
	members, group := b.Memory.Workers.Size(), 0
	reads := b.Split(members, 1, func(c *plan.Call, member, _, _ int) { read(c, member, group) })
	writes := b.Split(members, 1, func(c *plan.Call, member, _, _ int) { write(c, member, group) })
	return func(c *plan.Call) {
		for group = range team.Groups() {
			reads(c)
			writes(c)
		}
	}
}

// convTerms lets the first thread write a convolution's weight gradient and the
// others terms of their own at the end of their scratch, which are then added in
// order. run gets its share's geometry and first image.
func convTerms[T kernel.Float](b *bind.Binder[T], p conv.Shape, scratch [][]T, run func(c *plan.Call, p *conv.Shape, lo int, dw, scratch []T, add bool)) bind.Job {
	dw, add := b.Out(0)
	parts := b.ConvParts(p)
	terms := make([][]T, len(parts))
	for i := range terms {
		if terms[i] = dw; i > 0 {
			terms[i] = scratch[i][len(scratch[i])-len(dw):]
		}
	}
	share := b.Split(p.N, 1, func(c *plan.Call, part, lo, _ int) {
		run(c, &parts[part], lo, terms[part], scratch[part], part == 0 && add(c))
	})
	sum := b.Split(len(dw), bind.ShareElems, func(_ *plan.Call, _, lo, hi int) {
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
func bindConvGradBias[T kernel.Float](b *bind.Binder[T]) bind.Job {
	s := op.TwoD(b.Step.In[0].Spec.Shape)
	p := conv.Shape{N: s[0], C: 1, H: s[2], W: s[3], K: s[1], R: 1, S: 1, StrideH: 1, StrideW: 1}
	dy := b.In(0)
	db, add := b.Out(0)
	return b.Split(p.K, max(1, bind.ShareElems/(p.N*p.H*p.W)), func(c *plan.Call, _, lo, hi int) {
		conv.GradBiasOf(&p, lo, hi, dy(c), db, add(c))
	})
}

func nativeConv(s *plan.Step) bind.Native {
	p := convGeometry(s)
	switch {
	case !bind.IsBF16(s.In[1]) || !conv.FastBF16(&p, directions[s.Op]):
	case s.Op == op.Conv2D && bind.IsBF16(s.Out[0]):
		return bind.Native{Bind: bindConvBF16, Scratch: conv.BF16Scratch(&p), Direct: []int{0, 1, ^0}}
	case s.Op == op.Conv2DGradInput && bind.IsBF16(s.Out[0]):
		return bind.Native{Bind: bindConvGradInputBF16, Scratch: conv.BF16Scratch(&p), Direct: []int{0, 1, ^0}}
	case s.Op == op.Conv2DGradWeight:
		return bind.Native{Bind: bindConvGradWeightBF16, Scratch: conv.BF16Scratch(&p), Term: s.Out[0].Spec.Shape.Elems(), Direct: []int{0, 1}}
	}
	return bind.Native{}
}

func bindConvBF16(b *bind.Binder[float32]) bind.Job {
	p, x, w, bias, scratch := convGeometry(b.Step), b.Half(0), b.Half(1), b.In(2), b.Scratches()
	y, in, out, parts := b.HalfOut(0), p.C*p.H*p.W, p.K*p.OutH()*p.OutW(), b.ConvParts(p)
	return b.Split(p.N, 1, func(c *plan.Call, part, lo, _ int) {
		conv.ForwardBF16(&parts[part], x(c)[lo*in:], w(c), bias(c), y[lo*out:], scratch[part])
	})
}

func bindConvGradInputBF16(b *bind.Binder[float32]) bind.Job {
	p, dy, w, scratch := convGeometry(b.Step), b.Half(0), b.Half(1), b.Scratches()
	dx, in, out, parts := b.HalfOut(0), p.C*p.H*p.W, p.K*p.OutH()*p.OutW(), b.ConvParts(p)
	return b.Split(p.N, 1, func(c *plan.Call, part, lo, _ int) {
		conv.GradInputBF16(&parts[part], dy(c)[lo*out:], w(c), dx[lo*in:], scratch[part])
	})
}

func bindConvGradWeightBF16(b *bind.Binder[float32]) bind.Job {
	p, x, dy, scratch := convGeometry(b.Step), b.Half(0), b.Half(1), b.Scratches()
	in, out := p.C*p.H*p.W, p.K*p.OutH()*p.OutW()
	return convTerms(b, p, scratch, func(c *plan.Call, p *conv.Shape, lo int, dw, scratch []float32, add bool) {
		conv.GradWeightBF16(p, x(c)[lo*in:], dy(c)[lo*out:], dw, scratch, add)
	})
}

var directions = map[graph.Op]conv.Direction{op.Conv2D: conv.ToOutput, op.Conv2DGradInput: conv.ToInput, op.ConvTranspose2D: conv.ToInput, op.Conv2DGradWeight: conv.ToWeight}

// halfConv takes convolutions whose images are of one half type, if they go by Winograd; filters may be float32.
func halfConv(s *plan.Step) bind.Native {
	d, p := s.In[0].Spec.DType, convGeometry(s)
	w := s.In[1].Spec.DType
	if w != d && (w != tensor.F32 || s.Op == op.Conv2DGradWeight) || !conv.TakesHalf(&p, directions[s.Op]) {
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

// filtersOf are a convolution's filters, in the type of its images or in float32.
func filtersOf[H conv.Half](b *bind.Binder[float32]) func(*plan.Call) conv.Filters[H] {
	if b.Step.In[1].Spec.DType == tensor.F32 {
		w := b.In(1)
		return func(c *plan.Call) conv.Filters[H] { return conv.Filters[H]{Wide: w(c)} }
	}
	w := bind.Halves[H](b, 1)
	return func(c *plan.Call) conv.Filters[H] { return conv.Filters[H]{Own: w(c)} }
}

func bindHalfConvForward[H conv.Half](b *bind.Binder[float32]) bind.Job {
	p, x, w, bias, scratch := convGeometry(b.Step), bind.Halves[H](b, 0), filtersOf[H](b), b.In(2), b.Scratches()
	y, in, out, parts := tensor.View[H](b.Memory.Fixed(&b.Step.Out[0])), p.C*p.H*p.W, p.K*p.OutH()*p.OutW(), b.ConvParts(p)
	return b.Split(p.N, 1, func(c *plan.Call, part, lo, _ int) {
		conv.ForwardHalf(&parts[part], x(c)[lo*in:], w(c), bias(c), y[lo*out:], scratch[part])
	})
}

func bindHalfConvGradInput[H conv.Half](b *bind.Binder[float32]) bind.Job {
	p, dy, w, scratch := convGeometry(b.Step), bind.Halves[H](b, 0), filtersOf[H](b), b.Scratches()
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
