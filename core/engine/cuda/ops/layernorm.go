package ops

import (
	"github.com/trainctl/trainctl/core/engine/op"
)

func init() {
	implement(op.LayerNorm, bindLayerNorm)
	implement(op.LayerNormGrad, bindLayerNormGrad)
}

func bindLayerNorm(b *binder) {
	a := b.s.Attr.(op.LayerNormAttr)
	b.rowNorm(a.Eps, rows{cols: a.Cols, groups: 1, hw: 1})
}

// bindLayerNormGrad takes the parameters' gradients first: dx may go over dy.
func bindLayerNormGrad(b *binder) {
	a, x := b.s.Attr.(op.LayerNormAttr), b.s.In[0].Spec
	if b.s.Out[1].Present() || b.s.Out[2].Present() {
		b.launch(x.DType, "layer_norm_grad_params", grid(a.Cols), 1, b.in(0), b.in(1), b.in(2), b.in(3), x.Shape.Elems()/a.Cols, a.Cols, b.out(1), b.out(2), b.gradType(), b.adds(1), b.adds(2))
	}
	b.rowNormGrad(rows{cols: a.Cols, groups: 1, hw: 1})
}

// rows are what layer_norm of norm.cu normalises: cols elements each. groups of them make
// up a sample, and hw elements share a weight and a bias.
type rows struct{ cols, groups, hw int }

func (b *binder) rowNorm(eps float64, r rows) {
	x, t := b.s.In[0].Spec, typeOf(b.s.In, 1)
	if !b.s.In[1].Present() {
		t = typeOf(b.s.In, 2)
	}
	b.launch(x.DType, "layer_norm", x.Shape.Elems()/r.cols, 1, b.in(0), b.in(1), b.in(2), t, r.cols, r.groups, r.hw, eps, b.out(0), b.out(1), b.out(2))
}

// rowNormGrad computes the input's gradient, if it is needed.
func (b *binder) rowNormGrad(r rows) {
	if x := b.s.In[0].Spec; b.s.Out[0].Present() {
		b.launch(x.DType, "layer_norm_grad_input", x.Shape.Elems()/r.cols, 1, b.in(0), b.in(1), b.in(2), b.in(3), b.in(4), typeOf(b.s.In, 4), r.cols, r.groups, r.hw, b.out(0))
	}
}
