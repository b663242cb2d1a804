package devicetest

import (
	"math"

	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/tensor"
)

func init() {
	register(op.NormPool, normPools)
}

// normPools are the fused norm, ReLU and max pooling.
func normPools(r *rig) {
	for _, p := range pooled {
		if p.n*p.h*p.w > 4 {
			r.each(p.String(), func(r *rig) { normPool(r, p) })
		}
	}
}

// normPool checks places by what lies there: the maximum of values that are
// equal but for rounding may be found at either, and where nothing passes the
// ReLU at any.
func normPool(r *rig, p images) {
	oh, ow := p.size()
	b := newBatchNorm(r, p.n, p.c, p.h, p.w, r.base)
	attr := op.NormPoolAttr{Norm: b.attr, Pool: p.a}
	mean, variance, mag := b.moments(b.x.v)
	res, idx := r.output(p.n, p.c, oh, ow), r.outputAs(tensor.I32, p.n, p.c, oh, ow)
	abs := make([]float64, b.c)
	for i, v := range b.mean.v {
		abs[i] = math.Abs(v)
	}
	r.parts.Train = false
	r.do(op.NormPool, attr, b.inputs(), []*arg{res, idx})
	p.checkNormPool(r, "in evaluation", b.apply(b.mean.v, b.variance.v, abs), res, idx)
	r.parts.Train = true
	mu, inv := r.outputAs(r.base, b.c), r.outputAs(r.base, b.c)
	r.do(op.NormPool, attr, b.inputs(), []*arg{res, idx, mu, inv})
	p.checkNormPool(r, "in training", b.apply(mean, variance, mag), res, idx)
	b.statistics(r, mean, variance, mag, float64(b.n*b.hw), mu, inv)

	y := r.place(r.d, r.now(res), res.Spec.Shape)
	dy := r.normal(p.n, p.c, oh, ow)
	full := make([]float64, len(b.x.v)) // dy where the maxima are
	for o, at := range r.now(idx) {
		if y.v[o] > 0 {
			full[o/(oh*ow)*b.hw+int(at)] += dy.v[o]
		}
	}
	dx, dw, db := b.slopes(full, r.now(mu), r.now(inv), float64(b.n*b.hw))
	sums := newWant(b.c)
	for i, v := range dx.v {
		sums.v[b.channel(i)] += v
		sums.mag[b.channel(i)] += dx.mag[i]
	}
	sums.terms = dx.terms
	gx, gw, gb, gs := r.output(p.n, p.c, p.h, p.w), r.gradient(r.base, b.c), r.gradient(r.base, b.c), r.outputAs(r.base, 1, b.c, 1, 1)
	in := []*arg{b.x, y, dy, idx, mu, inv, b.weight, b.bias}
	r.gradients(op.NormPoolGrad, attr, in, []*arg{gx, gw, gb, gs},
		wanted{"dx", gx, dx}, wanted{"dweight", gw, dw}, wanted{"dbias", gb, db}, wanted{"Σdx", gs, sums})
	r.do(op.NormPoolGrad, attr, in, []*arg{b.x, gw, gb, nil})
	r.check("dx over x", b.x, dx)
}

func (p images) checkNormPool(r *rig, when string, norm want, y, idx *arg) {
	r.t.Helper()
	got, places := r.now(y), r.now(idx)
	p.windows(func(plane, o int, at []int, _ int) {
		best, tol, here := 0.0, 0.0, -1
		for _, i := range at {
			j := plane*p.h*p.w + i
			best, tol = max(best, norm.v[j]), max(tol, norm.tolerance(r, j, r.d))
			if places[o] == float64(i) {
				here = j
			}
		}
		switch {
		case !(math.Abs(got[o]-best) <= tol):
			r.t.Errorf("y[%d] %s is %v, want %v within %.3g", o, when, got[o], best, tol)
		case here < 0:
			r.t.Errorf("the maximum of window %d %s is said to be at %v, the window is %v", o, when, places[o], at)
		case got[o] > 0 && !(norm.v[here] >= best-2*tol):
			r.t.Errorf("the maximum of window %d %s is %v, at the place given is %v", o, when, best, norm.v[here])
		}
	})
}
