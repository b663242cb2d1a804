package plan_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/trainctl/trainctl/core/base/testjson"
	"github.com/trainctl/trainctl/core/engine/plan"
	"github.com/trainctl/trainctl/core/tensor"
)

type summary struct {
	Sum, Abs float64
	First    []float64
}

type golden struct {
	Model   string
	Losses  []float64
	Arrival []string
	Correct int
	Grads   map[string]summary
	State3  map[string]summary
	Eval4   float64 `json:"eval_loss4"`
	Eval20  float64 `json:"eval_loss20"`
	Half    map[string]struct {
		Loss float64
		Off  map[string]float64
	}
}

func near(got, want, tol float64) bool {
	return math.Abs(got-want) <= tol*math.Max(1e-3, math.Abs(want))
}

// same compares a tensor with a golden summary. Elements are held against the
// tensor's mean magnitude, sums against the sum of magnitudes. What is smaller
// than tol/100 is rounding: the gradient of a bias before a batch norm is zero.
func same(t *testing.T, name string, x tensor.Tensor, want summary, tol float64) {
	t.Helper()
	var sum, abs float64
	n := x.Shape.Elems()
	floor := tol * 1e-2
	for i := range n {
		sum += x.At(i)
		abs += math.Abs(x.At(i))
	}
	if slack := tol*want.Abs + float64(n)*floor; math.Abs(sum-want.Sum) > slack || math.Abs(abs-want.Abs) > slack {
		t.Errorf("%s: sum %g, Σ|x| %g; PyTorch %g, %g", name, sum, abs, want.Sum, want.Abs)
	}
	for i, w := range want.First {
		if math.Abs(x.At(i)-w) > tol*math.Max(math.Abs(w), want.Abs/float64(n))+floor {
			t.Errorf("%s[%d]: %g, PyTorch %g", name, i, x.At(i), w)
		}
	}
}

// Training from PyTorch's weights on PyTorch's batches gives PyTorch's float64
// loss curve, gradients and state: to rounding in float64, and in float32
// within what 20 steps of a chaotic system leave.
func TestTrainingFollowsPyTorch(t *testing.T) {
	for _, want := range testjson.Read[[]golden](t, "testdata/golden.json") {
		for _, d := range []tensor.DType{tensor.F64, tensor.F32} {
			for _, fuse := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s/%v/fuse=%v", want.Model, d, fuse), func(t *testing.T) {
					f := follower{golden: want, dtype: d, fuse: fuse, steps: 20, eval: want.Eval20, tol: 1e-4}
					if d == tensor.F64 { // plain Go, and every step equally sharp
						f.steps, f.eval, f.tol = 4, want.Eval4, 1e-10
					}
					f.run(t)
				})
			}
		}
	}
}

// follower trains beside a golden.
type follower struct {
	golden
	dtype tensor.DType
	fuse  bool
	steps int
	eval  float64 // golden loss of an evaluation after the steps
	tol   float64 // of gradients and state
}

// curve is the tolerance of a step's loss.
func (f *follower) curve(step int) float64 {
	switch {
	case f.dtype == tensor.F64:
		return f.tol
	case f.Model == "mlp": // no batch norm to amplify rounding
		return 1e-5
	case step < 3:
		return 2e-5
	case step < 10:
		return 5e-4
	}
	return 3e-3
}

func (f *follower) run(t *testing.T) {
	const batch = 8
	g := build(t, goldenModel(f.Model), digits, class)
	r := newRig(t, g, plan.Options{Batch: batch, Train: true, DType: f.dtype, Fuse: f.fuse}, 7)
	v := r.velocities()
	for step, loss := range f.Losses[:f.steps] {
		x, y := goldenBatch(step, batch)
		res := r.prog.Run(plan.Args{Input: x, Target: y})
		if !near(res.Loss, loss, f.curve(step)) {
			t.Errorf("step %d: loss %.9g, PyTorch %.9g", step, res.Loss, loss)
		}
		if step == 0 {
			f.first(t, r, res)
		}
		r.sgd(v, 0.005, 0.9)
		if step == 2 {
			for i, e := range g.StateDict() {
				same(t, e.Name, r.st.Tensors[i], f.State3[e.Name], f.tol)
			}
		}
	}
	eval := r.bind(t, must(plan.Compile(g, plan.Options{Batch: batch, DType: f.dtype, Fuse: f.fuse})))
	x, y := goldenBatch(500, batch)
	if res := eval.Run(plan.Args{Input: x, Target: y}); !near(res.Loss, f.eval, f.curve(f.steps)) {
		t.Errorf("evaluation: loss %g, PyTorch %g", res.Loss, f.eval)
	}
}

// first looks closer at the first step, before errors grow.
func (f *follower) first(t *testing.T, r *rig, res plan.Result) {
	if res.Correct != f.Correct || res.Rows != 8 || !near(res.LossSum, f.Losses[0]*8, f.curve(0)) {
		t.Errorf("result %+v, PyTorch has %d correct", res, f.Correct)
	}
	for i, p := range r.g.Params() {
		same(t, p.Name+".grad", r.st.Grads[i], f.Grads[p.Name], f.tol)
	}
}

// Gradients become complete in the order in which PyTorch's autograd delivers
// them, and each hook fires once, when its gradient is final.
func TestGradientsArriveAsInPyTorch(t *testing.T) {
	for _, want := range testjson.Read[[]golden](t, "testdata/golden.json") {
		g := build(t, goldenModel(want.Model), digits, class)
		r := newRig(t, g, plan.Options{Batch: 4, Train: true, Fuse: true}, 7)
		var names []string
		var snap [][]byte
		x, y := goldenBatch(0, 4)
		order := r.p.GradOrder()
		r.prog.Run(plan.Args{Input: x, Target: y, OnGrad: func(i int) {
			if order[len(names)] != i {
				t.Errorf("%s: hook %d is for parameter %d, GradOrder says %d", want.Model, len(names), i, order[len(names)])
			}
			names = append(names, g.Params()[i].Name)
			snap = append(snap, slices.Clone(r.st.Grads[i].Data))
		}})
		if !slices.Equal(names, want.Arrival) {
			t.Errorf("%s: arrival %v, PyTorch %v", want.Model, names, want.Arrival)
		}
		for k, i := range order {
			if !slices.Equal(snap[k], r.st.Grads[i].Data) {
				t.Errorf("%s: the gradient of %s changed after its hook", want.Model, names[k])
			}
		}
	}
}
