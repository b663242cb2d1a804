package devicetest

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"math"
	"sync"

	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/engine/op"
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
		likePyTorch(r, o)
	})
}

// pointwise.json has what PyTorch's functions of these names give in float64;
// testdata/pointwise.py wrote it.
//
//go:embed testdata/pointwise.json
var torchValues []byte

var torch = sync.OnceValue(func() (t struct {
	X, Dy []float64
	Cases []struct {
		Name    graph.Op
		Scalars []float64
		Y, Dx   []float64
	}
}) {
	if err := json.Unmarshal(torchValues, &t); err != nil {
		panic(err)
	}
	return t
})

// likePyTorch checks a function against PyTorch's, with each of the arguments
// that the values are there for.
func likePyTorch(r *rig, o graph.Op) {
	if r.d != r.base { // a slope of a rounded output is another one
		return
	}
	cases, keys := 0, len(op.Of(o).Keys)
	for _, c := range torch().Cases {
		if c.Name != o {
			continue
		}
		cases++
		var attr any
		if keys > 0 {
			attr = op.Scalars(append(c.Scalars, make([]float64, 2-keys)...))
		}
		r.each(fmt.Sprintf("as_in_pytorch_%v", c.Scalars), func(r *rig) { compare(r, o, attr, torch().X, torch().Dy, c.Y, c.Dx) })
	}
	if cases == 0 {
		r.t.Errorf("there are no values of PyTorch's %s: add it to testdata/pointwise.py and run that", o)
	}
}

func compare(r *rig, o graph.Op, attr any, in, slope, out, grad []float64) {
	n := len(in)
	x, dy, y, dx := r.given(in, n), r.given(slope, n), newWant(n), newWant(n)
	y.terms, dx.terms, y.v, dx.v = functionTerms, functionTerms, out, grad
	for i := range n {
		y.mag[i], dx.mag[i] = max(1, math.Abs(in[i])), math.Abs(slope[i])*max(1, out[i]*out[i])
	}
	res, gx := r.output(n), r.output(n)
	r.do(o, attr, []*arg{x}, []*arg{res})
	r.check("y", res, y)
	saved := x
	if op.Of(o).Pointwise.Saved == op.SavedOutput {
		saved = res
	}
	r.do(op.GradOp(o), attr, []*arg{saved, dy}, []*arg{gx})
	r.check("dx", gx, dx)
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
	if op.Of(f.op).Pointwise.Slope {
		f.again(r, x, res, gx)
	}
	r.do(f.op, f.attr, []*arg{x}, []*arg{x})
	r.check("y over x", x, y)
}

// again checks that the gradient that makes the output again gives the bits of both steps.
func (f function) again(r *rig, x, y, dx *arg) {
	dy := r.normal(len(x.v))
	r.do(op.GradOp(f.op), f.attr, []*arg{x, dy}, []*arg{dx})
	wantY, wantDx := r.now(y), r.now(dx)
	again := r.output(len(x.v))
	r.do(op.GradAgainOp(f.op), f.attr, []*arg{x, dy}, []*arg{dy, again})
	r.same("y made again", again, wantY)
	r.same("dx with y", dy, wantDx)
}
