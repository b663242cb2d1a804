package devicetest

import (
	"math"
	"slices"

	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/engine/plan"
	"github.com/trainctl/trainctl/core/tensor"
)

// want is what a tensor should hold, and how sure arithmetic can be of it.
type want struct {
	v, mag []float64 // the value, and the magnitudes of its terms added up
	terms  float64   // of each value
	slack  float64   // more roundings per term than one; 0 means 1
	tf32   bool      // the terms are products of two inputs
	stored []float64 // what a device may have stored on the way, nil for nothing
}

func newWant(n int) want { return want{v: make([]float64, n), mag: make([]float64, n)} }

// add adds a term to element i.
func (w *want) add(i int, term float64) {
	w.v[i] += term
	w.mag[i] += math.Abs(term)
}

// unit is half the distance from 1 to the next number of a type.
func unit(d tensor.DType) float64 {
	if d.Float() {
		return d.Epsilon() / 2
	}
	return 0x1p-24
}

// tiny is half the smallest number of a type, or what is lost where a device
// takes numbers below the smallest normal one for zero.
func tiny(d tensor.DType) float64 {
	if d == tensor.F16 {
		return 0x1p-25
	}
	return 0x1p-126
}

// tolerance is how far element i may be off when the result has type d.
func (w *want) tolerance(r *rig, i int, d tensor.DType) float64 {
	slack := max(w.slack, 1)
	t := slack * (4 + 2*math.Sqrt(w.terms)) * unit(r.base) * w.mag[i]
	if w.tf32 && r.opt.TF32 && r.d == tensor.F32 {
		t += 0x1p-10 * w.mag[i]
	}
	if w.stored != nil && r.opt.BiasApart {
		t += 1.01 * unit(d) * math.Abs(w.stored[i])
	}
	return t + 1.01*unit(d)*(math.Abs(w.v[i])+t) + tiny(d)
}

// check compares an operand with what it should hold.
func (r *rig) check(name string, a *arg, w want) {
	r.t.Helper()
	r.checkScaled(name, a, w, 1)
}

// checkScaled does so when the result was added up n times, rounding each.
func (r *rig) checkScaled(name string, a *arg, w want, n float64) {
	r.t.Helper()
	d := a.Spec.DType
	for i, got := range r.now(a) {
		tol := n * w.tolerance(r, i, d)
		if n > 1 {
			tol += n * unit(d) * math.Abs(w.v[i])
		}
		if !(math.Abs(got-n*w.v[i]) <= tol) {
			r.t.Errorf("%s[%d] is %v, want %v within %.3g", name, i, got, n*w.v[i], tol)
			return
		}
	}
}

// wanted is an output and what it should hold.
type wanted struct {
	name string
	out  *arg
	want want
}

// gradients checks a step that writes gradients of parameters: over arbitrary contents,
// added to what is there because the call accumulates, and after an earlier step
// of the same call has written.
func (r *rig) gradients(op graph.Op, attr any, in, out []*arg, all ...wanted) {
	r.t.Helper()
	for n, times := range []float64{1, 2, 2} {
		r.step(op, attr, in, out)
		if n == 2 {
			r.again()
		}
		if res := r.run(plan.Args{Accumulate: n == 1}); res.Err != nil {
			r.t.Fatal(res.Err)
		}
		for _, w := range all {
			if w.out == nil {
				continue
			}
			if w.out.Place == plan.PlaceGrad {
				r.checkScaled(w.name, w.out, w.want, times)
			} else if n == 0 {
				r.check(w.name, w.out, w.want)
			}
		}
	}
}

// same checks integers, and floats that must not differ at all.
func (r *rig) same(name string, a *arg, v []float64) {
	r.t.Helper()
	for i, got := range r.now(a) {
		if got != v[i] {
			r.t.Errorf("%s[%d] is %v, want %v", name, i, got, v[i])
			return
		}
	}
}

// clone is a want whose values can be changed.
func (w want) clone() want {
	w.v, w.mag = slices.Clone(w.v), slices.Clone(w.mag)
	return w
}
