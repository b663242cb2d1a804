package devicetest

import (
	"github.com/trainctl/trainctl/core/engine/op"
)

func init() { register(op.LinearReLU, linearReLUs) }

func linearReLUs(r *rig) {
	for _, s := range [][3]int{{1, 1, 1}, {3, 5, 7}, {17, 10, 33}, {64, 32, 16}, {100, 10, 129}} {
		r.each(shapeName(s[:]...), func(r *rig) { linearReLU(r, s[0], s[1], s[2]) })
	}
}

// linearReLU is y [rows, out] = max(x [rows, in]·wᵀ + bias, 0), and the input
// gradient of a layer behind a ReLU, which passes where that ReLU's output is positive.
func linearReLU(r *rig, rows, out, in int) {
	x, w, bias, dy, gate := r.normal(rows, in), r.normal(out, in), r.normal(out), r.normal(rows, out), r.normal(rows, in)
	y, dx := products(rows*out, in, false), products(rows*in, out, false)
	for i := range rows {
		for o := range out {
			for k := range in {
				y.add(i*out+o, x.v[i*in+k]*w.v[o*in+k])
				dx.add(i*in+k, dy.v[i*out+o]*w.v[o*in+k])
			}
		}
	}
	res := r.output(rows, out)
	r.do(op.LinearReLU, nil, []*arg{x, w, nil}, []*arg{res})
	r.check("y without bias", res, clip(y.clone(), nil))
	for i := range rows * out {
		y.add(i, bias.v[i%out])
	}
	r.do(op.LinearReLU, nil, []*arg{x, w, bias}, []*arg{res})
	r.check("y", res, clip(y, nil))
	for i, g := range gate.v {
		if !(g > 0) {
			dx.v[i] = 0
		}
	}
	gx := r.output(rows, in)
	r.do(op.LinearGradInputReLU, nil, []*arg{dy, w, gate}, []*arg{gx})
	r.check("dx", gx, dx)
}
