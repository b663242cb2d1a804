package cuda

import (
	"github.com/trainctl/trainctl/core/graph"
	"github.com/trainctl/trainctl/core/plan"
	"github.com/trainctl/trainctl/core/tensor"
)

// convGeometry is struct Conv of conv.cu.
type convGeometry struct {
	n, c, h, w, k, r, s, oh, ow, strideH, strideW, padH, padW, dilH, dilW, groups int32
}

func convOf(s *plan.Step) convGeometry {
	var x, w, y tensor.Shape
	switch s.Op {
	case graph.Conv2DOp:
		x, w, y = s.In[0].Spec.Shape, s.In[1].Spec.Shape, s.Out[0].Spec.Shape
	case graph.Conv2DGradInputOp:
		x, w, y = s.Out[0].Spec.Shape, s.In[1].Spec.Shape, s.In[0].Spec.Shape
	default:
		x, w, y = s.In[0].Spec.Shape, s.Out[0].Spec.Shape, s.In[1].Spec.Shape
	}
	a := s.Attr.(graph.Conv2D)
	n := func(v int) int32 { return int32(v) }
	return convGeometry{
		n(x[0]), n(x[1]), n(x[2]), n(x[3]), n(w[0]), n(w[2]), n(w[3]), n(y[2]), n(y[3]),
		n(a.Stride[0]), n(a.Stride[1]), n(a.Padding[0]), n(a.Padding[1]), n(a.Dilation[0]), n(a.Dilation[1]), n(a.Groups),
	}
}

func bindConv(b *binder) {
	y := b.s.Out[0].Spec
	b.elementwise(y.DType, "conv", y.Shape.Elems(), b.in(0), b.in(1), b.in(2), b.out(0), convOf(b.s))
}

func bindConvGradInput(b *binder) {
	x := b.s.Out[0].Spec
	b.elementwise(x.DType, "conv_grad_input", x.Shape.Elems(), b.in(0), b.in(1), b.out(0), convOf(b.s))
}

func bindConvGradWeight(b *binder) {
	w := b.s.Out[0].Spec
	b.launch(w.DType, "conv_grad_weight", w.Shape.Elems(), 1, b.in(0), b.in(1), b.out(0), convOf(b.s), b.adds(0))
}

func bindConvGradBias(b *binder) {
	x := b.s.In[0].Spec
	v := b.images(x.Shape)
	part := b.scratch(8 * v.c * v.shares)
	b.launch(x.DType, "channel_sums", v.blocks(), v.shares, b.in(0), v.n, v.c, v.hw, v.lanes, part)
	b.launch(x.DType, "sum_parts", b.grid(v.c), 1, part, v.shares, v.c, b.out(0), typeOf(b.s.Out, 0), b.adds(0))
}
