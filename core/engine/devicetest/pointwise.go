package devicetest

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"math"
	"sync"

	"github.com/trainctl/trainctl/core/engine/devicetest/activation"
	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/engine/op"
)

// lengths around those of vectors, warps and blocks.
var lengths = []int{1, 2, 15, 33, 257, 1025}

// functionTerms are the roundings inside an exponential or its kin.
const functionTerms = 16

func init() {
	for o, variants := range activation.Functions {
		register(o, func(r *rig) { pointwise(r, o, variants) })
	}
}

// pointwise tests a function of one element with each of some values of its scalars.
func pointwise(r *rig, o graph.Op, variants []activation.Function) {
	for _, v := range variants {
		f := function{v, o}
		for _, n := range lengths {
			r.each(fmt.Sprintf("%v_%d", f.Attr, n), func(r *rig) { f.test(r, n) })
		}
		if len(f.Exact) > 0 {
			r.each(fmt.Sprintf("%v_exact", f.Attr), f.exact)
		}
	}
	likePyTorch(r, o)
}

// function is an activation with the operation that computes it.
type function struct {
	activation.Function
	op graph.Op
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
	r.do(op.GradOp(o), attr, []*arg{saved(o, x, res), dy}, []*arg{gx})
	r.check("dx", gx, dx)
}

// saved is what an operation keeps for its gradient.
func saved(o graph.Op, x, y *arg) *arg {
	if op.Of(o).Pointwise.Saved == op.SavedOutput {
		return y
	}
	return x
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
		y.v[i], y.mag[i] = f.F(v), max(1, math.Abs(v))
	}
	res := r.output(n)
	r.do(f.op, f.Attr, []*arg{x}, []*arg{res})
	r.check("y", res, y)
	kept := saved(f.op, x, r.place(r.d, y.v, []int{n}))
	for i, s := range kept.v {
		dx.v[i], dx.mag[i] = dy.v[i]*f.Slope(s), math.Abs(dy.v[i])*max(1, s*s)
	}
	gx := r.output(n)
	r.do(op.GradOp(f.op), f.Attr, []*arg{kept, dy}, []*arg{gx})
	r.check("dx", gx, dx)
	r.do(op.GradOp(f.op), f.Attr, []*arg{kept, dy}, []*arg{dy})
	r.check("dx over dy", dy, dx)
	if op.Of(f.op).Pointwise.Slope {
		f.again(r, x, res, gx)
	}
	r.do(f.op, f.Attr, []*arg{x}, []*arg{x})
	r.check("y over x", x, y)
}

// again checks that the gradient that makes the output again gives the bits of both steps.
func (f function) again(r *rig, x, y, dx *arg) {
	dy := r.normal(len(x.v))
	r.do(op.GradOp(f.op), f.Attr, []*arg{x, dy}, []*arg{dx})
	wantY, wantDx := r.now(y), r.now(dx)
	again := r.output(len(x.v))
	r.do(op.GradAgainOp(f.op), f.Attr, []*arg{x, dy}, []*arg{dy, again})
	r.same("y made again", again, wantY)
	r.same("dx with y", dy, wantDx)
}

// exact compares points in which the function and its slope have no rounding error.
func (f function) exact(r *rig) {
	n := len(f.Exact)
	x, dy, y, dx := make([]float64, n), make([]float64, n), make([]float64, n), make([]float64, n)
	for i, p := range f.Exact {
		x[i], dy[i], y[i], dx[i] = p.X, float64(i+1), p.Y, float64(i+1)*p.Slope
	}
	in, slope, out, grad := r.given(x, n), r.given(dy, n), r.output(n), r.output(n)
	r.do(f.op, f.Attr, []*arg{in}, []*arg{out})
	for i, got := range r.now(out) {
		if got != y[i] && !(math.IsNaN(got) && math.IsNaN(y[i])) {
			r.t.Errorf("%s(%v) is %v, want %v", f.op, x[i], got, y[i])
		}
	}
	r.do(op.GradOp(f.op), f.Attr, []*arg{saved(f.op, in, out), slope}, []*arg{grad})
	r.same("dx", grad, dx)
}
