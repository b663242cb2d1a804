package cuda

import (
	"github.com/trainctl/trainctl/core/cuda/driver"
	"github.com/trainctl/trainctl/core/graph"
	"github.com/trainctl/trainctl/core/plan"
	"github.com/trainctl/trainctl/core/tensor"
)

func unary(name string) func(*binder) {
	return func(b *binder) {
		x := b.s.In[0].Spec
		b.elementwise(x.DType, name, x.Shape.Elems(), b.in(0), b.out(0))
	}
}

func binary(name string) func(*binder) {
	return func(b *binder) {
		x := b.s.In[0].Spec
		b.elementwise(x.DType, name, x.Shape.Elems(), b.in(0), b.in(1), b.out(0))
	}
}

// bindAdd clips the sum on the way to memory where the next step is the ReLU that takes its place.
func bindAdd(b *binder) {
	if next := b.step + 1; next < len(b.flow.steps) {
		y, s := &b.s.Out[0], &b.flow.steps[next]
		if s.Op == graph.ReLUOp && s.Branch == b.s.Branch && y.Place == plan.PlaceArena && placeOf(&s.In[0]) == placeOf(y) && placeOf(&s.Out[0]) == placeOf(y) {
			binary("add_relu")(b)
			b.done[next] = true
			return
		}
	}
	binary("add")(b)
}

func bindReLU(b *binder) {
	if !b.done[b.step] {
		unary("relu")(b)
	}
}

func bindGELU(b *binder) {
	x, tanh := b.s.In[0].Spec, 0
	if b.s.Attr.(graph.GELU).Tanh {
		tanh = 1
	}
	n := x.Shape.Elems()
	if b.s.Op == graph.GELUOp {
		b.launch(x.DType, "gelu", grid(n), 1, b.in(0), b.out(0), n, tanh)
		return
	}
	b.launch(x.DType, "gelu_grad", grid(n), 1, b.in(0), b.in(1), b.out(0), n, tanh)
}

// bindCast turns images on the way where those that it reads lie otherwise than those that it writes.
func bindCast(b *binder) {
	n, lay := b.s.In[0].Spec.Shape.Elems(), b.lay[b.step]
	if lay.in == lay.out {
		b.launch(tensor.F32, "cast", grid(n), 1, b.in(0), typeOf(b.s.In, 0), b.out(0), typeOf(b.s.Out, 0), n, b.adds(0))
		return
	}
	b.turn(b.s.In[0].Spec, b.in(0), b.s.Out[0].Spec, b.out(0), lay.out)
}

// turn copies images from planes to channels side by side if last is set, and
// the other way if not, and rounds them to the type of what it writes.
func (b *binder) turn(from tensor.Spec, x driver.DevicePtr, to tensor.Spec, y driver.DevicePtr, last bool) {
	s := from.Shape
	b.launch(tensor.F32, "turn", grid(s.Elems()), 1, x, code(from.DType), y, code(to.DType), s[1], s[2]*s[3], flag(last), s.Elems())
}

// scalar is v in the type that kernels for d compute in.
func scalar(d tensor.DType, v float64) any {
	if d == tensor.F64 {
		return v
	}
	return float32(v)
}

func bindDropout(b *binder) {
	a, x := b.s.Attr.(graph.Dropout), b.s.In[0].Spec
	b.elementwise(x.DType, "dropout", x.Shape.Elems(), b.m.call, a.Layer, uint64(a.P*(1<<32)), scalar(x.DType, 1/(1-a.P)), b.in(0), b.out(0), b.out(1))
}

func bindDropoutGrad(b *binder) {
	a, x := b.s.Attr.(graph.Dropout), b.s.In[1].Spec
	b.elementwise(x.DType, "dropout_grad", x.Shape.Elems(), b.in(0), scalar(x.DType, 1/(1-a.P)), b.in(1), b.out(0))
}
