package cpu

import (
	"github.com/trainctl/trainctl/core/graph"
	"github.com/trainctl/trainctl/core/kernel"
	"github.com/trainctl/trainctl/core/plan"
	"github.com/trainctl/trainctl/core/tensor"
)

// Where kernels read and write bfloat16 themselves, a step needs no float32
// copies of its large operands. Small ones, biases and statistics, are still
// widened, and gradients of parameters still rounded, around the kernel.

// native is how a step runs on bfloat16: its binding, and the scratch elements
// of its kernel. A zero native means that it goes through float32.
type native struct {
	bind    func(*binder[float32]) job
	scratch int
	direct  []int // operands that the kernel takes as they are: inputs, and outputs as ^index
}

// nativeOf says how a step runs if all of its large operands are bfloat16.
func nativeOf(s *plan.Step) native {
	if !kernel.HasBF16() || len(s.In) < 2 || !isBF16(s.In[0]) {
		return native{}
	}
	switch s.Op {
	case graph.LinearOp, graph.LinearGradInputOp, graph.LinearGradWeightOp:
		if isBF16(s.In[1]) {
			return native{bind: bindLinearBF16(s.Op), scratch: kernel.GemmBF16Scratch(product(s)), direct: []int{0, 1}}
		}
	case graph.Conv2DOp, graph.Conv2DGradInputOp, graph.Conv2DGradWeightOp:
		if isBF16(s.In[1]) {
			return nativeConv(s)
		}
	}
	return native{}
}

func isBF16(o plan.Operand) bool { return o.Present() && o.Spec.DType == tensor.BF16 }

// takes reports whether the kernel reads or writes an operand as it is.
func (n *native) takes(operand int) bool {
	for _, d := range n.direct {
		if d == operand {
			return true
		}
	}
	return false
}

// workspace is Device.Workspace of such a step.
func (n *native) workspace(s *plan.Step, threads int) int {
	bytes := threads * roundUp(4*n.scratch)
	for i := range s.In {
		if !n.takes(i) {
			bytes += copyBytes(s, &s.In[i])
		}
	}
	for i := range s.Out {
		if !n.takes(^i) {
			bytes += copyBytes(s, &s.Out[i])
		}
	}
	return bytes
}

// half is input i as it is.
func (b *binder[T]) half(i int) func(c *plan.Call) []uint16 {
	at := b.m.place(&b.s.In[i])
	if at.data != nil {
		return always(tensor.View[uint16](at.data))
	}
	return func(c *plan.Call) []uint16 { return tensor.View[uint16](at.bytes(c)) }
}

// halfOut is output i, in the arena, as it is.
func (b *binder[T]) halfOut(i int) []uint16 { return tensor.View[uint16](b.m.fixed(&b.s.Out[i])) }

func bindLinearBF16(op graph.Op) func(*binder[float32]) job {
	switch op {
	case graph.LinearOp:
		return bindLinearForwardBF16
	case graph.LinearGradInputOp:
		return bindLinearGradInputBF16
	}
	return bindLinearGradWeightBF16
}

func bindLinearForwardBF16(b *binder[float32]) job {
	m, n, k := product(b.s)
	x, w, bias, scratch := b.half(0), b.half(1), b.in(2), b.scratches()
	y, _ := b.out(0)
	multiply := b.gemm(m, n, func(c *plan.Call, part, row, rows, col, cols int) {
		kernel.GemmBF16(false, true, rows, cols, k, x(c)[row*k:], k, w(c)[col*k:], k, y[row*n+col:], n, scratch[part], false)
	})
	return func(c *plan.Call) {
		multiply(c)
		if v := bias(c); v != nil {
			kernel.BiasAdd(m, n, y, v)
		}
	}
}

func bindLinearGradInputBF16(b *binder[float32]) job {
	m, n, k := product(b.s)
	dy, w, scratch := b.half(0), b.half(1), b.scratches()
	dx, _ := b.out(0)
	return b.gemm(m, n, func(c *plan.Call, part, row, rows, col, cols int) {
		kernel.GemmBF16(false, false, rows, cols, k, dy(c)[row*k:], k, w(c)[col:], n, dx[row*n+col:], n, scratch[part], false)
	})
}

func bindLinearGradWeightBF16(b *binder[float32]) job {
	m, n, k := product(b.s)
	x, dy, scratch := b.half(0), b.half(1), b.scratches()
	dw, add := b.out(0)
	return b.gemm(m, n, func(c *plan.Call, part, row, rows, col, cols int) {
		kernel.GemmBF16(true, false, rows, cols, k, dy(c)[row:], m, x(c)[col:], n, dw[row*n+col:], n, scratch[part], add(c))
	})
}
