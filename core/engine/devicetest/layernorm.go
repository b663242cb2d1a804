package devicetest

import (
	"math"

	"github.com/trainctl/trainctl/core/engine/op"
)

func init() {
	register(op.LayerNorm, layerNorms)
}

func layerNorms(r *rig) {
	for _, s := range [][2]int{{1, 1}, {3, 7}, {5, 64}, {2, 1025}} {
		r.each(shapeName(s[:]...), func(r *rig) { layerNorm(r, s[0], s[1]) })
	}
}

func layerNorm(r *rig, rows, cols int) {
	a := op.LayerNormAttr{Eps: 1e-5, Cols: cols}
	// A row is to a layer norm what a channel of one image is to a batch norm.
	b := &bn{n: 1, c: rows, hw: cols, x: r.normal(rows, cols), attr: op.BatchNormAttr{Eps: a.Eps}}
	weight, bias, dy := r.normalAs(r.base, cols), r.normalAs(r.base, cols), r.normal(rows, cols)
	mean, variance, mag := b.moments(b.x.v)
	plain := b.apply(mean, variance, mag)
	y := newWant(rows * cols)
	y.terms = plain.terms
	for i := range y.v {
		j := i % cols
		y.v[i] = plain.v[i]*weight.v[j] + bias.v[j]
		y.mag[i] = plain.mag[i]*math.Abs(weight.v[j]) + math.Abs(bias.v[j])
	}
	out, mu, inv := r.output(rows, cols), r.outputAs(r.base, rows), r.outputAs(r.base, rows)
	r.do(op.LayerNorm, a, []*arg{b.x, weight, bias}, []*arg{out, mu, inv})
	r.check("y", out, y)
	r.do(op.LayerNorm, a, []*arg{b.x, nil, nil}, []*arg{out, mu, inv})
	r.check("y without affine", out, plain)

	mean, scale := r.now(mu), r.now(inv)
	dw, db := newWant(cols), newWant(cols)
	weighted := make([]float64, rows*cols)
	for i, g := range dy.v {
		row, j := i/cols, i%cols
		dw.add(j, g*(b.x.v[i]-mean[row])*scale[row])
		dw.mag[j] += math.Abs(g*mean[row]) * scale[row]
		db.add(j, g)
		weighted[i] = g * weight.v[j]
	}
	dx, _, _ := b.slopes(weighted, mean, scale, float64(cols))
	dw.terms, db.terms = normTerms+float64(rows), float64(rows)
	gx, gw, gb := r.output(rows, cols), r.gradient(r.base, cols), r.gradient(r.base, cols)
	in := []*arg{b.x, dy, mu, inv, weight}
	r.gradients(op.LayerNormGrad, a, in, []*arg{gx, gw, gb}, wanted{"dx", gx, dx}, wanted{"dweight", gw, dw}, wanted{"dbias", gb, db})
	r.do(op.LayerNormGrad, a, in, []*arg{dy, gw, gb})
	r.check("dx over dy", dy, dx)
}
