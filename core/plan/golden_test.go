package plan_test

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"testing"

	"github.com/trainctl/trainctl/core/plan"
	"github.com/trainctl/trainctl/core/tensor"
)

type summary struct {
	Sum, Abs float64
	First    []float64
}

type golden struct {
	Model    string
	Losses   []float64
	Arrival  []string
	Correct  int
	Grads    map[string]summary
	State3   map[string]summary
	EvalLoss float64 `json:"eval_loss"`
	Half     map[string]struct {
		Loss float64
		Off  map[string]float64
	}
}

func goldens(t *testing.T) (g []golden) {
	t.Helper()
	raw, err := os.ReadFile("testdata/golden.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &g); err != nil {
		t.Fatal(err)
	}
	return g
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
		sum += at(x, i)
		abs += math.Abs(at(x, i))
	}
	if slack := tol*want.Abs + float64(n)*floor; math.Abs(sum-want.Sum) > slack || math.Abs(abs-want.Abs) > slack {
		t.Errorf("%s: sum %g, Σ|x| %g; PyTorch %g, %g", name, sum, abs, want.Sum, want.Abs)
	}
	for i, w := range want.First {
		if math.Abs(at(x, i)-w) > tol*math.Max(math.Abs(w), want.Abs/float64(n))+floor {
			t.Errorf("%s[%d]: %g, PyTorch %g", name, i, at(x, i), w)
		}
	}
}

// Training from PyTorch's weights on PyTorch's batches gives PyTorch's float64
// loss curve, gradients and state: to rounding in float64, and in float32
// within what 20 steps of a chaotic system leave.
func TestTrainingFollowsPyTorch(t *testing.T) {
	for _, want := range goldens(t) {
		for _, d := range []tensor.DType{tensor.F64, tensor.F32} {
			for _, fuse := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s/%v/fuse=%v", want.Model, d, fuse), func(t *testing.T) { follow(t, want, d, fuse) })
			}
		}
	}
}

func follow(t *testing.T, want golden, d tensor.DType, fuse bool) {
	const batch = 8
	g := build(t, goldenModel(want.Model), digits, class)
	r := newRig(t, g, plan.Options{Batch: batch, Train: true, DType: d, Fuse: fuse}, 7)
	curve := func(step int) float64 {
		switch {
		case d == tensor.F64:
			return 1e-10
		case step < 3:
			return 2e-5
		case step < 10:
			return 5e-4
		}
		return 3e-3
	}
	tol := map[tensor.DType]float64{tensor.F64: 1e-10, tensor.F32: 1e-4}[d]
	v := r.velocities()
	losses := want.Losses
	if d == tensor.F64 && !fuse {
		losses = losses[:4]
	}
	for step, loss := range losses {
		x, y := goldenBatch(step, batch)
		res := r.prog.Run(plan.Args{Input: x, Target: y})
		if !near(res.Loss, loss, curve(step)) {
			t.Errorf("step %d: loss %.9g, PyTorch %.9g", step, res.Loss, loss)
		}
		if step == 0 {
			if res.Correct != want.Correct || res.Rows != batch || !near(res.LossSum, loss*batch, curve(0)) {
				t.Errorf("result %+v, PyTorch has %d correct", res, want.Correct)
			}
			for i, p := range g.Params() {
				same(t, p.Name+".grad", r.st.Grads[i], want.Grads[p.Name], tol)
			}
		}
		r.sgd(v, 0.005, 0.9)
		if step == 2 {
			for i, e := range g.StateDict() {
				same(t, e.Name, r.st.Tensors[i], want.State3[e.Name], tol)
			}
		}
	}
	if len(losses) < len(want.Losses) {
		return
	}
	eval, err := plan.Compile(g, plan.Options{Batch: batch, DType: d, Fuse: fuse})
	if err != nil {
		t.Fatal(err)
	}
	x, y := goldenBatch(500, batch)
	if res := r.bind(t, eval).Run(plan.Args{Input: x, Target: y}); !near(res.Loss, want.EvalLoss, curve(19)) {
		t.Errorf("evaluation: loss %g, PyTorch %g", res.Loss, want.EvalLoss)
	}
}

// Gradients become complete in the order in which PyTorch's autograd delivers
// them, and each hook fires once, when its gradient is final.
func TestGradientsArriveAsInPyTorch(t *testing.T) {
	for _, want := range goldens(t) {
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
