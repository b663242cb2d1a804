package devicetest

import (
	"fmt"
	"math"

	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/tensor"
)

func init() {
	register(op.MaxPool, maxPools)
}

func maxPools(r *rig) {
	for _, p := range pooled {
		r.each(p.String(), func(r *rig) { maxPool(r, p) })
	}
	r.each("of_equals_and_nan", maxPoolTies)
}

// images are pooled with a.
type images struct {
	n, c, h, w int
	a          op.PoolAttr
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

func pool(k, s, p int, ceil, count bool) op.PoolAttr {
	return op.PoolAttr{Kernel: [2]int{k, k}, Stride: [2]int{s, s}, Padding: [2]int{p, p}, Ceil: ceil, CountPadding: count}
}

var pooled = []images{
	{1, 1, 2, 2, pool(2, 2, 0, false, true)},
	{2, 3, 28, 28, pool(2, 2, 0, false, true)},
	{2, 3, 9, 7, pool(3, 2, 1, false, true)},
	{1, 5, 9, 10, pool(3, 2, 1, true, false)},
	{2, 2, 7, 7, pool(2, 2, 0, true, true)},
	{1, 2, 8, 11, op.PoolAttr{Kernel: [2]int{3, 4}, Stride: [2]int{1, 3}, Padding: [2]int{1, 2}}},
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
	r.do(op.MaxPool, p.a, []*arg{x}, []*arg{res, idx})
	r.same("y", res, y)
	r.same("places", idx, places)
	r.do(op.MaxPoolGrad, p.a, []*arg{idx, dy}, []*arg{gx})
	r.check("dx", gx, dx)
}

// maxPoolTies: the first of equals wins, and a NaN over everything.
func maxPoolTies(r *rig) {
	nan := math.NaN()
	x := r.given([]float64{2, 2, 1, nan, 2, 2, 3, 1}, 1, 1, 2, 4)
	res, idx := r.output(1, 1, 1, 2), r.outputAs(tensor.I32, 1, 1, 1, 2)
	r.do(op.MaxPool, pool(2, 2, 0, false, false), []*arg{x}, []*arg{res, idx})
	r.same("places", idx, []float64{0, 3})
	if v := r.now(res); v[0] != 2 || v[1] == v[1] {
		r.t.Errorf("maxima %v, want 2 and NaN", v)
	}
}
