package devicetest

import (
	"math"

	"github.com/trainctl/trainctl/core/engine/op"
)

func init() {
	register(op.RMSNorm, func(r *rig) {
		for _, s := range [][2]int{{1, 1}, {3, 7}, {5, 64}, {2, 1025}, {140, 520}} {
			r.each(shapeName(s[:]...), func(r *rig) { rmsNorm(r, s[0], s[1]) })
		}
	})
}

func rmsNorm(r *rig, rows, cols int) {
	a := op.LayerNormAttr{Eps: 1e-5, Cols: cols, Dims: 1}
	x, weight, dy := r.normal(rows, cols), r.normalAs(r.base, cols), r.normal(rows, cols)
	n, terms := rows*cols, float64(cols+4)
	y, plain, dx, plainDx, dw := newWant(n), newWant(n), newWant(n), newWant(n), newWant(cols)
	y.terms, plain.terms, dx.terms, plainDx.terms, dw.terms = terms, terms, terms, terms, terms+float64(rows)
	for row := range rows {
		v, g := x.v[row*cols:][:cols], dy.v[row*cols:][:cols]
		square, _ := dot(v, v)
		inv := 1 / math.Sqrt(square/float64(cols)+a.Eps)
		slope := func(w *want, scale func(j int) float64) {
			var sum, mag float64
			for j := range v {
				sum += g[j] * scale(j) * v[j]
				mag += math.Abs(g[j] * scale(j) * v[j])
			}
			for j := range v {
				back := v[j] * inv * inv / float64(cols)
				w.v[row*cols+j] = (g[j]*scale(j) - back*sum) * inv
				w.mag[row*cols+j] = (math.Abs(g[j]*scale(j)) + math.Abs(back)*mag) * inv
			}
		}
		slope(&dx, func(j int) float64 { return weight.v[j] })
		slope(&plainDx, func(int) float64 { return 1 })
		for j := range v {
			y.add(row*cols+j, v[j]*inv*weight.v[j])
			plain.add(row*cols+j, v[j]*inv)
			dw.add(j, g[j]*v[j]*inv)
		}
	}
	out, inv := r.output(rows, cols), r.outputAs(r.base, rows)
	r.do(op.RMSNorm, a, []*arg{x, weight}, []*arg{out, inv})
	r.check("y", out, y)
	r.do(op.RMSNorm, a, []*arg{x, nil}, []*arg{out, inv})
	r.check("y without weight", out, plain)
	gx, gw := r.output(rows, cols), r.gradient(r.base, cols)
	r.gradients(op.RMSNormGrad, a, []*arg{x, dy, inv, weight}, []*arg{gx, gw}, wanted{"dx", gx, dx}, wanted{"dweight", gw, dw})
	r.do(op.RMSNormGrad, a, []*arg{x, dy, inv, nil}, []*arg{gx, nil})
	r.check("dx without weight", gx, plainDx)
	r.do(op.RMSNormGrad, a, []*arg{x, dy, inv, weight}, []*arg{dy, gw})
	r.check("dx over dy", dy, dx)
}
