package cpu

import (
	"github.com/trainctl/trainctl/core/graph"
	"github.com/trainctl/trainctl/core/kernel"
	"github.com/trainctl/trainctl/core/plan"
	"github.com/trainctl/trainctl/core/tensor"
)

// poolGeometry takes the shape of the pooled images, which is x's or dx's.
func poolGeometry(s *plan.Step, x tensor.Shape) kernel.Pool {
	a := poolAttr(s)
	return kernel.Pool{
		N: x[0], C: x[1], H: x[2], W: x[3], R: a.Kernel[0], S: a.Kernel[1],
		StrideH: a.Stride[0], StrideW: a.Stride[1], PadH: a.Padding[0], PadW: a.Padding[1],
		CeilMode: a.Ceil, CountIncludePad: a.CountPadding,
	}
}

func poolAttr(s *plan.Step) graph.Pool {
	if fused, ok := s.Attr.(plan.NormPool); ok {
		return fused.Pool
	}
	return s.Attr.(graph.Pool)
}

func bindMaxPool[T kernel.Float](b *binder[T]) job {
	p, x, at := poolGeometry(b.s, b.s.In[0].Spec.Shape), b.in(0), index[int32](b.m, &b.s.Out[1])
	y, _ := b.out(0)
	return func(c *plan.Call) { kernel.MaxPool2D(&p, x(c), y, at) }
}

func bindMaxPoolGrad[T kernel.Float](b *binder[T]) job {
	p, at, dy := poolGeometry(b.s, b.s.Out[0].Spec.Shape), index[int32](b.m, &b.s.In[0]), b.in(1)
	dx, _ := b.out(0)
	return func(c *plan.Call) { kernel.MaxPool2DGrad(&p, dy(c), at, dx) }
}

func bindAvgPool[T kernel.Float](b *binder[T]) job {
	x := b.in(0)
	y, _ := b.out(0)
	if b.s.Op == graph.AvgPoolGradOp {
		p := poolGeometry(b.s, b.s.Out[0].Spec.Shape)
		return func(c *plan.Call) { kernel.AvgPool2DGrad(&p, x(c), y) }
	}
	p := poolGeometry(b.s, b.s.In[0].Spec.Shape)
	return func(c *plan.Call) { kernel.AvgPool2D(&p, x(c), y) }
}

func bindAdaptivePool[T kernel.Float](b *binder[T]) job {
	in, out := b.s.In[0].Spec.Shape, b.s.Out[0].Spec.Shape
	x := b.in(0)
	y, _ := b.out(0)
	if b.s.Op == graph.AdaptiveAvgPoolGradOp {
		return func(c *plan.Call) {
			kernel.AdaptiveAvgPool2DGrad(out[0], out[1], out[2], out[3], in[2], in[3], x(c), y)
		}
	}
	return func(c *plan.Call) {
		kernel.AdaptiveAvgPool2D(in[0], in[1], in[2], in[3], out[2], out[3], x(c), y)
	}
}
