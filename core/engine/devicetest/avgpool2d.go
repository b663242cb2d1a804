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

func init() {
	register(op.AdaptiveAvgPool, adaptivePools)
}

func adaptivePools(r *rig) {
	for _, s := range [][4]int{{7, 7, 1, 1}, {5, 7, 3, 3}, {2, 3, 4, 5}, {8, 8, 4, 4}} {
		r.each(shapeName(s[:]...), func(r *rig) { adaptivePool(r, s[0], s[1], s[2], s[3]) })
	}
}

func adaptivePool(r *rig, h, w, oh, ow int) {
	const n, c = 2, 3
	x, dy := r.normal(n, c, h, w), r.normal(n, c, oh, ow)
	y, dx := newWant(len(dy.v)), newWant(len(x.v))
	for o := range dy.v {
		plane, i, j := o/(oh*ow), o/ow%oh, o%ow
		h0, h1, w0, w1 := i*h/oh, ((i+1)*h+oh-1)/oh, j*w/ow, ((j+1)*w+ow-1)/ow
		count := float64((h1 - h0) * (w1 - w0))
		for a := h0; a < h1; a++ {
			for b := w0; b < w1; b++ {
				at := (plane*h+a)*w + b
				y.add(o, x.v[at]/count)
				dx.add(at, dy.v[o]/count)
			}
		}
	}
	y.terms, dx.terms = float64(h*w), float64(oh*ow)
	res, gx := r.output(n, c, oh, ow), r.output(n, c, h, w)
	r.do(op.AdaptiveAvgPool, nil, []*arg{x}, []*arg{res})
	r.check("y", res, y)
	r.do(op.AdaptiveAvgPoolGrad, nil, []*arg{dy}, []*arg{gx})
	r.check("dx", gx, dx)
}
