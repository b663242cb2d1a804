package devicetest

import (
	"fmt"
	"math"

	"github.com/trainctl/trainctl/core/graph"
	"github.com/trainctl/trainctl/core/plan"
	"github.com/trainctl/trainctl/core/tensor"
)

// images are pooled with a.
type images struct {
	n, c, h, w int
	a          graph.Pool
}

func (p images) out(i, in int) int {
	span := in + 2*p.a.Padding[i] - p.a.Kernel[i]
	if !p.a.Ceil {
		return span/p.a.Stride[i] + 1
	}
	n := (span+p.a.Stride[i]-1)/p.a.Stride[i] + 1
	if (n-1)*p.a.Stride[i] >= in+p.a.Padding[i] {
		n--
	}
	return n
}

func (p images) size() (oh, ow int) { return p.out(0, p.h), p.out(1, p.w) }

func (p images) String() string {
	return fmt.Sprintf("%s_r%s_s%s_p%s_%v_%v", shapeName(p.n, p.c, p.h, p.w), shapeName(p.a.Kernel[:]...), shapeName(p.a.Stride[:]...), shapeName(p.a.Padding[:]...), p.a.Ceil, p.a.CountPadding)
}

// windows calls f for every pooled element with the places in the plane that it
// is made of, and the number that a mean divides by.
func (p images) windows(f func(plane, o int, at []int, count int)) {
	oh, ow := p.size()
	for plane := range p.n * p.c {
		for o := range oh * ow {
			h0, w0 := o/ow*p.a.Stride[0]-p.a.Padding[0], o%ow*p.a.Stride[1]-p.a.Padding[1]
			h1, w1 := min(h0+p.a.Kernel[0], p.h+p.a.Padding[0]), min(w0+p.a.Kernel[1], p.w+p.a.Padding[1])
			var at []int
			for h := max(h0, 0); h < min(h1, p.h); h++ {
				for w := max(w0, 0); w < min(w1, p.w); w++ {
					at = append(at, h*p.w+w)
				}
			}
			count := len(at)
			if p.a.CountPadding {
				count = (h1 - h0) * (w1 - w0)
			}
			f(plane, plane*oh*ow+o, at, count)
		}
	}
}

func pool(k, s, p int, ceil, count bool) graph.Pool {
	return graph.Pool{Kernel: [2]int{k, k}, Stride: [2]int{s, s}, Padding: [2]int{p, p}, Ceil: ceil, CountPadding: count}
}

var pooled = []images{
	{1, 1, 2, 2, pool(2, 2, 0, false, true)},
	{2, 3, 28, 28, pool(2, 2, 0, false, true)},
	{2, 3, 9, 7, pool(3, 2, 1, false, true)},
	{1, 5, 9, 10, pool(3, 2, 1, true, false)},
	{2, 2, 7, 7, pool(2, 2, 0, true, true)},
	{1, 2, 8, 11, graph.Pool{Kernel: [2]int{3, 4}, Stride: [2]int{1, 3}, Padding: [2]int{1, 2}}},
}

func poolings(r *rig) {
	for _, p := range pooled {
		r.each("max_"+p.String(), func(r *rig) { maxPool(r, p) })
		r.each("avg_"+p.String(), func(r *rig) { avgPool(r, p) })
	}
	r.each("max_of_equals_and_nan", maxPoolTies)
	for _, s := range [][4]int{{7, 7, 1, 1}, {5, 7, 3, 3}, {2, 3, 4, 5}, {8, 8, 4, 4}} {
		r.each("adaptive_"+shapeName(s[:]...), func(r *rig) { adaptivePool(r, s[0], s[1], s[2], s[3]) })
	}
}

func maxPool(r *rig, p images) {
	oh, ow := p.size()
	x, dy := r.normal(p.n, p.c, p.h, p.w), r.normal(p.n, p.c, oh, ow)
	y, places := make([]float64, len(dy.v)), make([]float64, len(dy.v))
	dx := newWant(len(x.v))
	p.windows(func(plane, o int, at []int, _ int) {
		y[o] = math.Inf(-1)
		for _, i := range at {
			if v := x.v[plane*p.h*p.w+i]; v > y[o] {
				y[o], places[o] = v, float64(i)
			}
		}
		dx.add(plane*p.h*p.w+int(places[o]), dy.v[o])
	})
	dx.terms = float64(p.a.Kernel[0] * p.a.Kernel[1])
	res, idx, gx := r.output(p.n, p.c, oh, ow), r.outputAs(tensor.I32, p.n, p.c, oh, ow), r.output(p.n, p.c, p.h, p.w)
	r.do(graph.MaxPoolOp, p.a, []*arg{x}, []*arg{res, idx})
	r.same("y", res, y)
	r.same("places", idx, places)
	r.do(graph.MaxPoolGradOp, p.a, []*arg{idx, dy}, []*arg{gx})
	r.check("dx", gx, dx)
}

// maxPoolTies: the first of equals wins, and a NaN over everything.
func maxPoolTies(r *rig) {
	nan := math.NaN()
	x := r.given([]float64{2, 2, 1, nan, 2, 2, 3, 1}, 1, 1, 2, 4)
	res, idx := r.output(1, 1, 1, 2), r.outputAs(tensor.I32, 1, 1, 1, 2)
	r.do(graph.MaxPoolOp, pool(2, 2, 0, false, false), []*arg{x}, []*arg{res, idx})
	r.same("places", idx, []float64{0, 3})
	if v := r.now(res); v[0] != 2 || v[1] == v[1] {
		r.t.Errorf("maxima %v, want 2 and NaN", v)
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
	r.do(graph.AvgPoolOp, p.a, []*arg{x}, []*arg{res})
	r.check("y", res, y)
	r.do(graph.AvgPoolGradOp, p.a, []*arg{dy}, []*arg{gx})
	r.check("dx", gx, dx)
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
	r.do(graph.AdaptiveAvgPoolOp, nil, []*arg{x}, []*arg{res})
	r.check("y", res, y)
	r.do(graph.AdaptiveAvgPoolGradOp, nil, []*arg{dy}, []*arg{gx})
	r.check("dx", gx, dx)
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
	attr := plan.NormPool{Norm: b.attr, Pool: p.a}
	mean, variance, mag := b.moments(b.x.v)
	res, idx := r.output(p.n, p.c, oh, ow), r.outputAs(tensor.I32, p.n, p.c, oh, ow)
	abs := make([]float64, b.c)
	for i, v := range b.mean.v {
		abs[i] = math.Abs(v)
	}
	r.parts.Train = false
	r.do(plan.NormPoolOp, attr, b.inputs(), []*arg{res, idx})
	p.checkNormPool(r, "in evaluation", b.apply(b.mean.v, b.variance.v, abs), res, idx)
	r.parts.Train = true
	mu, inv := r.outputAs(r.base, b.c), r.outputAs(r.base, b.c)
	r.do(plan.NormPoolOp, attr, b.inputs(), []*arg{res, idx, mu, inv})
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
	in := []*arg{b.x, y, dy, idx, mu, inv, b.weight}
	r.gradients(plan.NormPoolGradOp, attr, in, []*arg{gx, gw, gb, gs},
		wanted{"dx", gx, dx}, wanted{"dweight", gw, dw}, wanted{"dbias", gb, db}, wanted{"Σdx", gs, sums})
	r.do(plan.NormPoolGradOp, attr, in, []*arg{b.x, gw, gb, nil})
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
