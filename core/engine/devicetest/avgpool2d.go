package devicetest

import (
	"github.com/trainctl/trainctl/core/engine/op"
)

func init() {
	register(op.AvgPool, avgPools)
}

func avgPools(r *rig) {
	for _, p := range pooled {
		r.each(p.String(), func(r *rig) { avgPool(r, p) })
	}
}

func avgPool(r *rig, p images) {
	oh, ow := p.size()
	x, dy := r.normal(p.n, p.c, p.h, p.w), r.normal(p.n, p.c, oh, ow)
	y, dx := newWant(len(dy.v)), newWant(len(x.v))
	p.windows(func(plane, o int, at []int, count int) {
		for _, i := range at {
			y.add(o, x.v[plane*p.h*p.w+i]/float64(count))
			dx.add(plane*p.h*p.w+i, dy.v[o]/float64(count))
		}
	})
	y.terms = float64(p.a.Kernel[0] * p.a.Kernel[1])
	dx.terms = y.terms
	res, gx := r.output(p.n, p.c, oh, ow), r.output(p.n, p.c, p.h, p.w)
	r.do(op.AvgPool, p.a, []*arg{x}, []*arg{res})
	r.check("y", res, y)
	r.do(op.AvgPoolGrad, p.a, []*arg{dy}, []*arg{gx})
	r.check("dx", gx, dx)
}
