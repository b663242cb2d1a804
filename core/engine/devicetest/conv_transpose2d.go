package devicetest

import (
	"fmt"
	"slices"

	"github.com/trainctl/trainctl/core/engine/op"
)

func init() {
	register(op.ConvTranspose2D, func(r *rig) {
		for _, g := range geometries {
			if !g.signal {
				r.each(fmt.Sprint(g), func(r *rig) { transposed(r, g) })
			}
		}
	})
}

// transposed exchanges the input and the output of a convolution with the same weight.
func transposed(r *rig, g geometry) {
	oh, ow := g.out(0, g.h), g.out(1, g.w)
	x, w, bias := r.normal(g.n, g.k, oh, ow), r.normal(g.k, g.c/g.Groups, g.rs[0], g.rs[1]), r.normal(g.c)
	y := products(g.n*g.c*g.h*g.w, g.k/g.Groups*g.rs[0]*g.rs[1], g.rs == [2]int{3, 3})
	g.taps(func(o, j, i int) { y.add(o, x.v[i]*w.v[j]) })
	out := r.output(g.n, g.c, g.h, g.w)
	r.do(op.ConvTranspose2D, g.Conv2DAttr, []*arg{x, w, nil}, []*arg{out})
	r.check("y without bias", out, y)
	y.stored = slices.Clone(y.v)
	for o := range y.v {
		y.add(o, bias.v[o/(g.h*g.w)%g.c])
	}
	r.do(op.ConvTranspose2D, g.Conv2DAttr, []*arg{x, w, bias}, []*arg{out})
	r.check("y", out, y)
}
