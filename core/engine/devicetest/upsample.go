package devicetest

import (
	"fmt"
	"math"

	"github.com/trainctl/trainctl/core/engine/op"
)

func init() {
	register(op.Upsample, func(r *rig) {
		for _, a := range []op.UpsampleAttr{{Scale: 1}, {Scale: 2}, {Scale: 3}, {Scale: 1, Bilinear: true}, {Scale: 2, Bilinear: true}, {Scale: 3, Bilinear: true}} {
			for _, s := range [][4]int{{1, 1, 1, 1}, {2, 3, 5, 4}, {1, 2, 1, 7}} {
				r.each(fmt.Sprintf("%+v_%s", a, shapeName(s[:]...)), func(r *rig) { upsampling(r, a, s[0], s[1], s[2], s[3]) })
			}
		}
	})
}

func upsampling(r *rig, a op.UpsampleAttr, n, c, h, w int) {
	x, dy := r.normal(n, c, h, w), r.normal(n, c, a.Scale*h, a.Scale*w)
	y, dx := newWant(len(dy.v)), newWant(len(x.v))
	y.terms, dx.terms = 4, float64(9*a.Scale*a.Scale)
	for plane := range n * c {
		for i := range a.Scale * h {
			for j := range a.Scale * w {
				at := (plane*a.Scale*h+i)*a.Scale*w + j
				for row, u := range taps(i, h, a) {
					for col, v := range taps(j, w, a) {
						from := (plane*h+row)*w + col
						y.add(at, u*v*x.v[from])
						dx.add(from, u*v*dy.v[at])
					}
				}
			}
		}
	}
	out, grad := r.output(n, c, a.Scale*h, a.Scale*w), r.output(n, c, h, w)
	r.do(op.Upsample, a, []*arg{x}, []*arg{out})
	r.check("y", out, y)
	r.do(op.UpsampleGrad, a, []*arg{dy}, []*arg{grad})
	r.check("dx", grad, dx)
}

// taps are the inputs, of n, that output i is made of, with their weights.
func taps(i, n int, a op.UpsampleAttr) map[int]float64 {
	if !a.Bilinear {
		return map[int]float64{i / a.Scale: 1}
	}
	at := max(0, (float64(i)+0.5)/float64(a.Scale)-0.5)
	low, share := int(at), at-math.Floor(at)
	if low+1 >= n {
		return map[int]float64{low: 1}
	}
	return map[int]float64{low: 1 - share, low + 1: share}
}
