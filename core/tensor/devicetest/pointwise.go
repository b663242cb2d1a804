package devicetest

import (
	"fmt"
	"math"

	"github.com/trainctl/trainctl/core/graph"
	"github.com/trainctl/trainctl/core/kernel"
	"github.com/trainctl/trainctl/core/plan"
	"github.com/trainctl/trainctl/core/tensor"
)

// lengths around those of vectors, warps and blocks.
var lengths = []int{1, 2, 15, 33, 257, 1025}

// functionTerms are the roundings inside an exponential or its kin.
const functionTerms = 16

// activation is a function and its slope, from the input or the output.
type activation struct {
	op       graph.Op
	attr     any
	f        func(x float64) float64
	slope    func(saved float64) float64 // of the output, or of the input for GELU
	ofOutput bool
}

var activations = []activation{
	{graph.ReLUOp, nil, func(x float64) float64 { return max(x, 0) }, func(y float64) float64 {
		if y > 0 {
			return 1
		}
		return 0
	}, true},
	{graph.SigmoidOp, nil, func(x float64) float64 { return 1 / (1 + math.Exp(-x)) }, func(y float64) float64 { return y * (1 - y) }, true},
	{graph.TanhOp, nil, math.Tanh, func(y float64) float64 { return 1 - y*y }, true},
	{graph.GELUOp, graph.GELU{}, func(x float64) float64 { return x * phi(x) },
		func(x float64) float64 { return phi(x) + x*math.Exp(-x*x/2)/math.Sqrt(2*math.Pi) }, false},
	{graph.GELUOp, graph.GELU{Tanh: true}, func(x float64) float64 { return x / 2 * (1 + math.Tanh(cubic(x))) },
		func(x float64) float64 {
			t := math.Tanh(cubic(x))
			return (1+t)/2 + x/2*(1-t*t)*math.Sqrt(2/math.Pi)*(1+3*0.044715*x*x)
		}, false},
}

func phi(x float64) float64   { return math.Erfc(-x/math.Sqrt2) / 2 }
func cubic(x float64) float64 { return math.Sqrt(2/math.Pi) * (x + 0.044715*x*x*x) }

func pointwise(r *rig) {
	for _, a := range activations {
		for _, n := range lengths {
			r.each(fmt.Sprintf("%s%v_%d", a.op, a.attr, n), func(r *rig) { a.test(r, n) })
		}
	}
	r.each("relu_of_nan", reluOfNaN)
	for _, n := range lengths {
		r.each(fmt.Sprintf("add_%d", n), func(r *rig) { addition(r, n) })
	}
}

// test uses magnitudes that bound the inner terms of the formula: 1 − y² and its
// like cancel, so a slope is only as good as its largest term.
func (a activation) test(r *rig, n int) {
	v := make([]float64, n)
	for i := range v {
		v[i] = 3 * r.rnd.NormFloat64()
	}
	v[0] = 40 // exp overflows single precision at 89: must saturate, not fail
	x, dy := r.given(v, n), r.normal(n)
	y, dx := newWant(n), newWant(n)
	y.terms, dx.terms = functionTerms, functionTerms
	for i, v := range x.v {
		y.v[i], y.mag[i] = a.f(v), max(1, math.Abs(v))
	}
	res := r.output(n)
	r.do(a.op, a.attr, []*arg{x}, []*arg{res})
	r.check("y", res, y)
	saved := x
	if a.ofOutput {
		saved = r.place(r.d, y.v, []int{n})
	}
	for i, s := range saved.v {
		dx.v[i], dx.mag[i] = dy.v[i]*a.slope(s), math.Abs(dy.v[i])*max(1, s*s)
	}
	gx := r.output(n)
	r.do(a.op.GradOp(), a.attr, []*arg{saved, dy}, []*arg{gx})
	r.check("dx", gx, dx)
	r.do(a.op.GradOp(), a.attr, []*arg{saved, dy}, []*arg{dy})
	r.check("dx over dy", dy, dx)
	r.do(a.op, a.attr, []*arg{x}, []*arg{x})
	r.check("y over x", x, y)
}

// reluOfNaN: a NaN stays one, and lets the gradient through.
func reluOfNaN(r *rig) {
	x, dy, y, dx := r.given([]float64{math.NaN(), -1, 0, 2}, 4), r.given([]float64{1, 2, 3, 4}, 4), r.output(4), r.output(4)
	r.do(graph.ReLUOp, nil, []*arg{x}, []*arg{y})
	if v := r.now(y); v[0] == v[0] || v[1] != 0 || v[2] != 0 || v[3] != 2 {
		r.t.Errorf("relu(NaN, -1, 0, 2) is %v", v)
	}
	r.do(graph.ReLUGradOp, nil, []*arg{y, dy}, []*arg{dx})
	r.same("dx", dx, []float64{1, 0, 0, 4})
}

func addition(r *rig, n int) {
	a, b, y := r.normal(n), r.normal(n), r.output(n)
	w := newWant(n)
	w.terms = 1
	for i := range n {
		w.add(i, a.v[i])
		w.add(i, b.v[i])
	}
	r.do(graph.AddOp, nil, []*arg{a, b}, []*arg{y})
	r.check("sum", y, w)
	r.do(graph.AddOp, nil, []*arg{a, b}, []*arg{b})
	r.check("sum over its second term", b, w)
}

// dropouts must drop what kernel.DropoutMask says: a mask belongs to the seed,
// the step, the rank and the layer, and to no device.
func dropouts(r *rig) {
	for _, n := range lengths {
		r.each(fmt.Sprint(n), func(r *rig) {
			a := graph.Dropout{P: 0.3, Layer: 5}
			x, dy, y, mask, dx := r.normal(n), r.normal(n), r.output(n), r.outputAs(tensor.U8, n), r.output(n)
			bits := make([]uint8, n)
			kernel.DropoutMask(7, uint64(9)<<32|uint64(2)<<16|a.Layer, a.P, bits)
			wy, wdx, wm := newWant(n), newWant(n), make([]float64, n)
			for i, m := range bits {
				wm[i] = float64(m)
				wy.add(i, x.v[i]*wm[i]/(1-a.P))
				wdx.add(i, dy.v[i]*wm[i]/(1-a.P))
			}
			r.step(graph.DropoutOp, a, []*arg{x}, []*arg{y, mask})
			if res := r.run(plan.Args{Seed: 7, Step: 9, Rank: 2}); res.Err != nil {
				r.t.Fatal(res.Err)
			}
			r.same("mask", mask, wm)
			r.check("y", y, wy)
			r.do(graph.DropoutGradOp, a, []*arg{mask, dy}, []*arg{dx})
			r.check("dx", dx, wdx)
		})
	}
}

// casts between the activations' type and every other, with the numbers at
// which rounding is decided.
func casts(r *rig) {
	for _, to := range []tensor.DType{tensor.F32, tensor.F64, tensor.F16, tensor.BF16} {
		if to == r.d || to == tensor.F64 && r.d != tensor.F32 || r.d == tensor.F64 && to != tensor.F32 {
			continue // no policy makes these
		}
		r.each("to_"+to.String(), func(r *rig) {
			v := []float64{0, 1, -1, 65504, 65519, 65520, 1e30, 0x1p-14, 0x1p-24, 0x1p-25, 0x1.8p-25, 1 + 0x1p-8, 1 + 0x1.8p-8, 1 + 0x1p-11, 1 + 0x1.8p-10, math.Inf(-1), 3.14159}
			for range 300 {
				v = append(v, r.rnd.NormFloat64())
			}
			x, y, g := r.given(v, len(v)), r.outputAs(to, len(v)), r.gradient(to, len(v))
			t := tensor.New(to, len(v))
			for i, a := range x.v {
				set(t, i, a)
			}
			r.do(plan.CastOp, nil, []*arg{x}, []*arg{y})
			r.same("cast", y, values(t))
			r.do(plan.CastOp, nil, []*arg{x}, []*arg{g})
			r.same("cast into a gradient", g, values(t))
			r.step(plan.CastOp, nil, []*arg{x}, []*arg{g})
			if res := r.run(plan.Args{Accumulate: true}); res.Err != nil {
				r.t.Fatal(res.Err)
			}
			twice := tensor.New(to, len(v))
			for i, a := range values(t) {
				set(twice, i, 2*a)
			}
			r.same("cast added to a gradient", g, values(twice))
		})
	}
	r.each("of_nan", func(r *rig) {
		x, y := r.given([]float64{math.NaN()}, 1), r.outputAs(r.base, 1)
		if r.d == r.base {
			return
		}
		r.do(plan.CastOp, nil, []*arg{x}, []*arg{y})
		if v := r.now(y); v[0] == v[0] {
			r.t.Errorf("NaN becomes %v", v[0])
		}
	})
}
