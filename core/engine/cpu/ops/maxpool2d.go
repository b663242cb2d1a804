package ops

import (
	"github.com/trainctl/trainctl/core/engine/cpu/bind"
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/pool"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/plan"
	"github.com/trainctl/trainctl/core/tensor"
)

func init() {
	bind.Implement(op.MaxPool, bind.Implementation{F32: bindMaxPool[float32], F64: bindMaxPool[float64], Blocks: bind.Cuts{Along: bind.Images, Of: []int{0, ^0, ^1}}, Scratch: maxPoolScratch})
	bind.Implement(op.MaxPoolGrad, bind.Implementation{F32: bindMaxPoolGrad[float32], F64: bindMaxPoolGrad[float64], Blocks: bind.Cuts{Along: bind.Images, Of: []int{0, 1, ^0}}, Scratch: maxPoolGradScratch})
}

// maxPoolScratch is the number of elements that a forward pass needs beside its tensors.
func maxPoolScratch(s *plan.Step, _ int) int {
	p := poolGeometry(s, s.In[0].Spec.Shape)
	return p.MaxScratch()
}

// maxPoolGradScratch is the same for a backward pass.
func maxPoolGradScratch(s *plan.Step, _ int) int {
	p := poolGeometry(s, s.Out[0].Spec.Shape)
	return p.MaxGradScratch()
}

// poolGeometry takes the shape of the pooled images, which is x's or dx's.
func poolGeometry(s *plan.Step, x tensor.Shape) pool.Shape {
	a := poolAttr(s)
	p := pool.Shape{
		N: x[0], C: x[1], H: x[2], W: x[3], R: a.Kernel[0], S: a.Kernel[1],
		StrideH: a.Stride[0], StrideW: a.Stride[1], PadH: a.Padding[0], PadW: a.Padding[1],
		CeilMode: a.Ceil, CountIncludePad: a.CountPadding,
	}
	p.Prepare()
	return p
}

func poolAttr(s *plan.Step) op.PoolAttr {
	if fused, ok := s.Attr.(op.NormPoolAttr); ok {
		return fused.Pool
	}
	return s.Attr.(op.PoolAttr)
}

func bindMaxPool[T kernel.Float](b *bind.Binder[T]) bind.Job {
	p, x, at := poolGeometry(b.Step, b.Step.In[0].Spec.Shape), b.In(0), bind.Index[int32](b.Memory, &b.Step.Out[1])
	y, _ := b.Out(0)
	in, out, parts, scratch := p.C*p.H*p.W, p.C*p.OutH()*p.OutW(), poolParts(b, p), b.Scratches()
	return b.Split(p.N, 1, func(c *plan.Call, part, lo, _ int) {
		pool.MaxPool2D(&parts[part], x(c)[lo*in:], y[lo*out:], at[lo*out:], scratch[part])
	})
}

func bindMaxPoolGrad[T kernel.Float](b *bind.Binder[T]) bind.Job {
	p, at, dy := poolGeometry(b.Step, b.Step.Out[0].Spec.Shape), bind.Index[int32](b.Memory, &b.Step.In[0]), b.In(1)
	dx, _ := b.Out(0)
	in, out, parts, scratch := p.C*p.H*p.W, p.C*p.OutH()*p.OutW(), poolParts(b, p), b.Scratches()
	return b.Split(p.N, 1, func(c *plan.Call, part, lo, _ int) {
		pool.MaxPool2DGrad(&parts[part], dy(c)[lo*out:], at[lo*out:], dx[lo*in:], scratch[part])
	})
}
