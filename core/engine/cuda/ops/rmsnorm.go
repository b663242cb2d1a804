package ops

import "github.com/trainctl/trainctl/core/engine/op"

func init() {
	implement(op.RMSNorm, bindRMSNorm)
	implement(op.RMSNormGrad, bindRMSNormGrad)
}

func bindRMSNorm(b *binder) {
	a, x := b.s.Attr.(op.LayerNormAttr), b.s.In[0].Spec
	b.launch(x.DType, "rms_norm", x.Shape.Elems()/a.Cols, 1, b.in(0), b.in(1), typeOf(b.s.In, 1), a.Cols, a.Eps, b.out(0), b.out(1))
}

// bindRMSNormGrad takes the weight's gradient first: dx may go over dy.
func bindRMSNormGrad(b *binder) {
	a, x := b.s.Attr.(op.LayerNormAttr), b.s.In[0].Spec
	rows := x.Shape.Elems() / a.Cols
	if b.s.Out[1].Present() {
		b.launch(x.DType, "rms_norm_grad_weight", grid(a.Cols), 1, b.in(0), b.in(1), b.in(2), rows, a.Cols, b.out(1), typeOf(b.s.Out, 1), b.adds(1))
	}
	if b.s.Out[0].Present() {
		b.launch(x.DType, "rms_norm_grad_input", rows, 1, b.in(0), b.in(1), b.in(2), b.in(3), typeOf(b.s.In, 3), a.Cols, b.out(0))
	}
}
