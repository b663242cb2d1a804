package ops

import (
	"github.com/trainctl/trainctl/core/engine/cuda/driver"
	"github.com/trainctl/trainctl/core/engine/cuda/library"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/plan"
	"github.com/trainctl/trainctl/core/tensor"
)

func init() {
	implement(op.Conv2D, bindConv)
	implement(op.Conv2DGradInput, bindConvGradInput)
	implement(op.Conv2DGradWeight, bindConvGradWeight)
	implement(op.Conv2DGradBias, bindConvGradBias)
}

func convOf(s *plan.Step) library.Geometry {
	var x, w, y tensor.Shape
	switch s.Op {
	case op.Conv2D:
		x, w, y = s.In[0].Spec.Shape, s.In[1].Spec.Shape, s.Out[0].Spec.Shape
	case op.Conv2DGradInput, op.ConvTranspose2D:
		x, w, y = s.Out[0].Spec.Shape, s.In[1].Spec.Shape, s.In[0].Spec.Shape
	default:
		x, w, y = s.In[0].Spec.Shape, s.Out[0].Spec.Shape, s.In[1].Spec.Shape
	}
	a := s.Attr.(op.Conv2DAttr)
	x, w, y = op.TwoD(x), op.TwoD(w), op.TwoD(y)
	n := func(v int) int32 { return int32(v) }
	return library.Geometry{
		N: n(x[0]), C: n(x[1]), H: n(x[2]), W: n(x[3]), K: n(w[0]), R: n(w[2]), S: n(w[3]), OH: n(y[2]), OW: n(y[3]),
		StrideH: n(a.Stride[0]), StrideW: n(a.Stride[1]), PadH: n(a.Padding[0]), PadW: n(a.Padding[1]),
		DilH: n(a.Dilation[0]), DilW: n(a.Dilation[1]), Groups: n(a.Groups),
	}
}

func convolutionOf(s *plan.Step, last bool) library.Convolution {
	direction := s.Op
	if direction == op.ConvTranspose2D {
		direction = op.Conv2DGradInput
	}
	return library.Convolution{Op: direction, G: convOf(s), D: s.Out[0].Spec.DType, Last: last}
}

// tensorCores is what channels side by side are worth to a GPU: tensor cores want half types so,
// where cuDNN has plans for that.
type tensorCores struct{ lib *library.Libraries }

// Saves implements [layout.Device].
func (t tensorCores) Saves(s *plan.Step) int64 {
	work := max(s.FLOPs, 1)
	if !t.lib.Planned(convolutionOf(s, true)) {
		return -work
	}
	return work
}

// Stores implements [layout.Device].
func (tensorCores) Stores(d tensor.DType) bool { return d != tensor.F32 && d != tensor.F64 }

// filter is where a convolution reads its weights: State has their channels apart.
func (b *binder) filter(c library.Convolution) driver.DevicePtr {
	w := b.s.In[1].Spec
	if !c.Last || c.Taps() == 1 {
		return b.in(1)
	}
	at := b.scratch(w.Bytes())
	b.elementwise(w.DType, "filter_last", w.Shape.Elems(), b.in(1), at, w.Shape[1], c.Taps())
	return at
}

// planar reports whether a step whose images have their channels side by side
// has to convert them to planes, because cuDNN has no plan for c as they lie; c
// is then a convolution of planes.
func (b *binder) planar(c *library.Convolution) bool {
	if !c.Last || b.lib.Planned(*c) {
		return false
	}
	c.Last = false
	return true
}

// planes converts input i to planes beside it.
func (b *binder) planes(i int) driver.DevicePtr {
	s := b.s.In[i].Spec
	at := b.scratch(s.Bytes())
	b.convertLayout(s, b.in(i), s, at, false)
	return at
}

// arranged gives input 0 and output 0, or their planes if c works on those; done converts
// the output's back.
func (b *binder) arranged(c *library.Convolution, spec tensor.Spec) (in, out driver.DevicePtr, done func()) {
	if !b.planar(c) {
		return b.in(0), b.out(0), func() {}
	}
	in, out = b.planes(0), b.scratch(spec.Bytes())
	return in, out, func() { b.convertLayout(spec, out, spec, b.out(0), true) }
}

func bindConv(b *binder) {
	y, c := b.s.Out[0].Spec, convolutionOf(b.s, b.last())
	x, out, done := b.arranged(&c, y)
	defer done()
	if !b.lib.Planned(c) {
		b.elementwise(y.DType, "conv", y.Shape.Elems(), x, b.in(1), b.in(2), out, c.G)
		return
	}
	b.convolve(c, x, b.filter(c), out)
	b.channelBias(c, y, out)
}

// channelBias adds input 2, if there is one.
func (b *binder) channelBias(c library.Convolution, y tensor.Spec, out driver.DevicePtr) {
	if len(b.s.In) > 2 && b.s.In[2].Present() {
		v := b.imagesOf(y.Shape, c.Last)
		b.elementwise(y.DType, "channel_bias", y.Shape.Elems(), out, b.in(2), v.c, v.hw)
	}
}

func bindConvGradInput(b *binder) {
	x, c := b.s.Out[0].Spec, convolutionOf(b.s, b.last())
	dy, out, done := b.arranged(&c, x)
	defer done()
	if b.lib.Planned(c) {
		b.convolve(c, out, b.filter(c), dy)
		b.channelBias(c, x, out) // of a transposed convolution
		return
	}
	var bias driver.DevicePtr
	if len(b.s.In) > 2 {
		bias = b.in(2)
	}
	b.elementwise(x.DType, "conv_grad_input", x.Shape.Elems(), dy, b.in(1), bias, out, c.G)
}

// bindConvGradWeight lets cuDNN write where the gradient belongs, or beside it
// where it is added or its layout is converted.
func bindConvGradWeight(b *binder) {
	w, c := b.s.Out[0].Spec, convolutionOf(b.s, b.last())
	x, dy := b.in(0), b.in(1)
	if b.planar(&c) {
		x, dy = b.planes(0), b.planes(1)
	}
	if !b.lib.Planned(c) {
		b.launch(w.DType, "conv_grad_weight", w.Shape.Elems(), 1, x, dy, b.out(0), c.G, b.adds(0))
		return
	}
	convert, add, before := c.Last && c.Taps() > 1, b.adds(0), len(b.items)
	at, channels, taps := b.scratch(w.Bytes()), w.Shape[1], 1
	if !convert {
		used := b.used
		b.convolve(c, x, b.out(0), dy)
		b.only(before, nil, add)
		before, b.used = len(b.items), used // one of the two runs
	}
	if convert {
		taps = c.Taps()
	}
	b.convolve(c, x, at, dy)
	b.elementwise(w.DType, "filter_grad", w.Shape.Elems(), at, b.out(0), channels, taps, add)
	if !convert {
		b.only(before, add, nil)
	}
}

func bindConvGradBias(b *binder) {
	x := b.s.In[0].Spec
	v := b.images(x.Shape).single()
	if v.n*v.hw == 1 { // sums that another step has made
		b.launch(tensor.F32, "cast", grid(v.c), 1, b.in(0), typeOf(b.s.In, 0), b.out(0), typeOf(b.s.Out, 0), v.c, b.adds(0))
		return
	}
	part := b.scratch(8 * v.c * v.shares)
	b.launch(x.DType, "channel_sums", v.blocks(), v.shares, b.in(0), v.n, v.c, v.hw, v.lanes, part)
	b.launch(x.DType, "sum_parts", v.c, 1, part, v.shares, b.out(0), typeOf(b.s.Out, 0), b.adds(0))
}
