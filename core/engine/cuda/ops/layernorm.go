package ops

import (
	"github.com/trainctl/trainctl/core/engine/op"
)

func init() {
	implement(op.LayerNorm, bindLayerNorm)
	implement(op.LayerNormGrad, bindLayerNormGrad)
}

func bindLayerNorm(b *binder) {
	a, x, t := b.s.Attr.(op.LayerNormAttr), b.s.In[0].Spec, typeOf(b.s.In, 1)
	if !b.s.In[1].Present() {
		t = typeOf(b.s.In, 2)
	}
	b.launch(x.DType, "layer_norm", x.Shape.Elems()/a.Cols, 1, b.in(0), b.in(1), b.in(2), t, a.Cols, a.Eps, b.out(0), b.out(1), b.out(2))
}

// bindLayerNormGrad takes the parameters' gradients first: dx may go over dy.
func bindLayerNormGrad(b *binder) {
	a, x := b.s.Attr.(op.LayerNormAttr), b.s.In[0].Spec
	rows := x.Shape.Elems() / a.Cols
	if b.s.Out[1].Present() || b.s.Out[2].Present() {
		b.launch(x.DType, "layer_norm_grad_params", grid(a.Cols), 1, b.in(0), b.in(1), b.in(2), b.in(3), rows, a.Cols, b.out(1), b.out(2), b.gradType(), b.adds(1), b.adds(2))
	}
	if b.s.Out[0].Present() {
		b.launch(x.DType, "layer_norm_grad_input", rows, 1, b.in(0), b.in(1), b.in(2), b.in(3), b.in(4), typeOf(b.s.In, 4), a.Cols, b.out(0))
	}
}
