package devicetest

import (
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/tensor"
)

func init() {
	register(op.GroupNorm, groupNorms)
}

func groupNorms(r *rig) {
	for _, s := range [][]int{{2, 6, 3}, {3, 6, 6}, {2, 8, 2, 5}, {2, 4, 1, 7, 7}, {1, 140, 2}, {2, 12, 4, 16, 16}} {
		n, c, groups, pixels := s[0], s[1], s[2], s[3:]
		r.each(shapeName(s...), func(r *rig) { groupNorm(r, n, c, groups, pixels) })
	}
}

func groupNorm(r *rig, n, c, groups int, pixels []int) {
	hw := tensor.Shape(pixels).Elems()
	a, shape, each := op.GroupNormAttr{Eps: 1e-5, Groups: groups}, append([]int{n, c}, pixels...), c/groups*hw
	// A group is to a group norm what a channel of one image is to a batch norm.
	b := &bn{n: 1, c: n * groups, hw: each, x: r.normal(shape...), attr: op.BatchNormAttr{Eps: a.Eps}}
	weight, bias, dy := r.normalAs(r.base, c), r.normalAs(r.base, c), r.normal(shape...)
	channel := func(i int) int { return i / hw % c }
	mean, variance, mag := b.moments(b.x.v)
	plain := b.apply(mean, variance, mag)
	y := affineOf(plain, weight.v, bias.v, channel)
	out, mu, inv := r.output(shape...), r.outputAs(r.base, n, groups), r.outputAs(r.base, n, groups)
	r.do(op.GroupNorm, a, []*arg{b.x, weight, bias}, []*arg{out, mu, inv})
	r.check("y", out, y)
	r.do(op.GroupNorm, a, []*arg{b.x, nil, nil}, []*arg{out, mu, inv})
	r.check("y without affine", out, plain)

	dx, dw, db := b.weightedSlopes(dy.v, weight.v, r.now(mu), r.now(inv), channel)
	gx, gw, gb := r.output(shape...), r.gradient(r.base, c), r.gradient(r.base, c)
	in := []*arg{b.x, dy, mu, inv, weight}
	r.gradients(op.GroupNormGrad, a, in, []*arg{gx, gw, gb}, wanted{"dx", gx, dx}, wanted{"dweight", gw, dw}, wanted{"dbias", gb, db})
	r.gradients(op.GroupNormGrad, a, in, []*arg{nil, gw, gb}, wanted{"dweight alone", gw, dw})
	r.do(op.GroupNormGrad, a, in, []*arg{dy, gw, gb})
	r.check("dx over dy", dy, dx)
}
