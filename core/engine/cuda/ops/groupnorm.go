package ops

import (
	"github.com/trainctl/trainctl/core/engine/op"
)

func init() {
	implement(op.GroupNorm, bindGroupNorm)
	implement(op.GroupNormGrad, bindGroupNormGrad)
}

// groups of channels are to a group norm what rows are to a layer norm.
func (b *binder) groups() rows {
	x, groups := b.s.In[0].Spec.Shape, b.s.Attr.(op.GroupNormAttr).Groups
	return rows{cols: x[1:].Elems() / groups, groups: groups, hw: x[2:].Elems()}
}

func bindGroupNorm(b *binder) { b.rowNorm(b.s.Attr.(op.GroupNormAttr).Eps, b.groups()) }

// bindGroupNormGrad takes the parameters' gradients first: dx may go over dy.
func bindGroupNormGrad(b *binder) {
	x, r := b.s.In[0].Spec, b.groups()
	if c := x.Shape[1]; b.s.Out[1].Present() || b.s.Out[2].Present() {
		b.launch(x.DType, "group_norm_grad_params", c, 1, b.in(0), b.in(1), b.in(2), b.in(3), x.Shape[0], c, r.hw, r.groups, b.out(1), b.out(2), b.gradType(), b.adds(1), b.adds(2))
	}
	b.rowNormGrad(r)
}
