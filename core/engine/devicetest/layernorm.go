package devicetest

import (
	"math"

	"github.com/trainctl/trainctl/core/engine/op"
)

func init() {
	register(op.LayerNorm, layerNorms)
}

func layerNorms(r *rig) {
	for _, s := range [][2]int{{1, 1}, {3, 7}, {5, 64}, {2, 1025}, {140, 520}} {
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
	column := func(i int) int { return i % cols }
	y := affineOf(plain, weight.v, bias.v, column)
	out, mu, inv := r.output(rows, cols), r.outputAs(r.base, rows), r.outputAs(r.base, rows)
	r.do(op.LayerNorm, a, []*arg{b.x, weight, bias}, []*arg{out, mu, inv})
	r.check("y", out, y)
	r.do(op.LayerNorm, a, []*arg{b.x, nil, nil}, []*arg{out, mu, inv})
	r.check("y without affine", out, plain)

	dx, dw, db := b.weightedSlopes(dy.v, weight.v, r.now(mu), r.now(inv), column)
	gx, gw, gb := r.output(rows, cols), r.gradient(r.base, cols), r.gradient(r.base, cols)
	in := []*arg{b.x, dy, mu, inv, weight}
	r.gradients(op.LayerNormGrad, a, in, []*arg{gx, gw, gb}, wanted{"dx", gx, dx}, wanted{"dweight", gw, dw}, wanted{"dbias", gb, db})
	r.do(op.LayerNormGrad, a, in, []*arg{dy, gw, gb})
	r.check("dx over dy", dy, dx)
}

// affineOf is y·weight + bias, of the parameter that belongs to each element.
func affineOf(y want, weight, bias []float64, parameter func(i int) int) want {
	out := newWant(len(y.v))
	out.terms = y.terms
	for i := range y.v {
		j := parameter(i)
		out.v[i] = y.v[i]*weight[j] + bias[j]
		out.mag[i] = y.mag[i]*math.Abs(weight[j]) + math.Abs(bias[j])
	}
	return out
}

// weightedSlopes are the gradients of a norm whose channels are not those of its parameters.
func (b *bn) weightedSlopes(dy, weight, mean, scale []float64, parameter func(i int) int) (dx, dw, db want) {
	dw, db = newWant(len(weight)), newWant(len(weight))
	weighted := make([]float64, len(dy))
	for i, g := range dy {
		ch, j := b.channel(i), parameter(i)
		dw.add(j, g*(b.x.v[i]-mean[ch])*scale[ch])
		dw.mag[j] += math.Abs(g*mean[ch]) * scale[ch]
		db.add(j, g)
		weighted[i] = g * weight[j]
	}
	dx, _, _ = b.slopes(weighted, mean, scale, float64(b.hw))
	terms := float64(len(dy) / len(weight))
	dw.terms, db.terms = normTerms+terms, terms
	return dx, dw, db
}
