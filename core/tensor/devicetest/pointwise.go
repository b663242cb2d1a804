package devicetest

import (
	"fmt"
	"math"

	"github.com/trainctl/trainctl/core/graph"
	"github.com/trainctl/trainctl/core/op"
)

// lengths around those of vectors, warps and blocks.
var lengths = []int{1, 2, 15, 33, 257, 1025}

// functionTerms are the roundings inside an exponential or its kin.
const functionTerms = 16

// function is a pointwise function with values of its scalars, and its slope as
// a function of what it saves: its input or its output.
type function struct {
	op       graph.Op
	f, slope func(x float64) float64
	attr     any
}

// pointwise enters the case of a function, once for each of some values of its scalars.
func pointwise(o graph.Op, variants ...function) {
	register(o, func(r *rig) {
		for _, f := range variants {
			f.op = o
			for _, n := range lengths {
				r.each(fmt.Sprintf("%v_%d", f.attr, n), func(r *rig) { f.test(r, n) })
			}
		}
	})
}

// test uses magnitudes that bound the inner terms of the formula: 1 − y² and its
// like cancel, so a slope is only as good as its largest term.
func (f function) test(r *rig, n int) {
	v := make([]float64, n)
	for i := range v {
		v[i] = 3 * r.rnd.NormFloat64()
	}
	v[0] = 40 // exp overflows single precision at 89: must saturate, not fail
	x, dy := r.given(v, n), r.normal(n)
	y, dx := newWant(n), newWant(n)
	y.terms, dx.terms = functionTerms, functionTerms
	for i, v := range x.v {
		y.v[i], y.mag[i] = f.f(v), max(1, math.Abs(v))
	}
	res := r.output(n)
	r.do(f.op, f.attr, []*arg{x}, []*arg{res})
	r.check("y", res, y)
	saved := x
	if op.Of(f.op).Pointwise.Saved == op.SavedOutput {
		saved = r.place(r.d, y.v, []int{n})
	}
	for i, s := range saved.v {
		dx.v[i], dx.mag[i] = dy.v[i]*f.slope(s), math.Abs(dy.v[i])*max(1, s*s)
	}
	gx := r.output(n)
	r.do(op.GradOp(f.op), f.attr, []*arg{saved, dy}, []*arg{gx})
	r.check("dx", gx, dx)
	r.do(op.GradOp(f.op), f.attr, []*arg{saved, dy}, []*arg{dy})
	r.check("dx over dy", dy, dx)
	r.do(f.op, f.attr, []*arg{x}, []*arg{x})
	r.check("y over x", x, y)
}
