package devicetest

import (
	"github.com/trainctl/trainctl/core/engine/op"
)

func init() {
	register(op.Linear, linears)
}

func linears(r *rig) {
	for _, s := range [][3]int{{1, 1, 1}, {3, 5, 7}, {17, 10, 33}, {64, 32, 16}, {2, 257, 3}, {100, 10, 129}} {
		r.each(shapeName(s[:]...), func(r *rig) { linear(r, s[0], s[1], s[2]) })
	}
	r.each("of_a_sequence", sequence)
}

// linear is y [rows, out] = x [rows, in]·wᵀ + bias and its three gradients.
func linear(r *rig, rows, out, in int) {
	x, w, bias, dy := r.normal(rows, in), r.normal(out, in), r.normal(out), r.normal(rows, out)
	y, dx, dw, db := products(rows*out, in, false), products(rows*in, out, false), products(out*in, rows, false), products(out, rows, false)
	for i := range rows {
		for o := range out {
			for k := range in {
				y.add(i*out+o, x.v[i*in+k]*w.v[o*in+k])
				dx.add(i*in+k, dy.v[i*out+o]*w.v[o*in+k])
				dw.add(o*in+k, dy.v[i*out+o]*x.v[i*in+k])
			}
			db.add(o, dy.v[i*out+o])
		}
	}
	res := r.output(rows, out)
	r.do(op.Linear, nil, []*arg{x, w, nil}, []*arg{res})
	r.check("y without bias", res, y)
	for i := range rows * out {
		y.add(i, bias.v[i%out])
	}
	r.do(op.Linear, nil, []*arg{x, w, bias}, []*arg{res})
	r.check("y", res, y)
	gx, gw, gb := r.output(rows, in), r.gradient(r.d, out, in), r.gradient(r.d, out)
	r.do(op.LinearGradInput, nil, []*arg{dy, w}, []*arg{gx})
	r.check("dx", gx, dx)
	r.gradients(op.LinearGradWeight, nil, []*arg{x, dy}, []*arg{gw}, wanted{"dw", gw, dw})
	r.gradients(op.LinearGradBias, nil, []*arg{dy}, []*arg{gb}, wanted{"dbias", gb, db})
}

// sequence has a dimension between batch and features.
func sequence(r *rig) {
	const n, l, out, in = 2, 3, 4, 5
	x, w := r.normal(n, l, in), r.normal(out, in)
	y := products(n*l*out, in, false)
	for i := range n * l * out {
		for k := range in {
			y.add(i, x.v[i/out*in+k]*w.v[i%out*in+k])
		}
	}
	res := r.output(n, l, out)
	r.do(op.Linear, nil, []*arg{x, w, nil}, []*arg{res})
	r.check("y", res, y)
}
