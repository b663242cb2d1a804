package devicetest

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"math"
	"sync"

	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/plan"
	"github.com/trainctl/trainctl/core/tensor"
)

// elementwiseLoss is the loss of one element and its slope, and the magnitude of what that adds up.
type elementwiseLoss struct {
	attr any
	f    func(x, t float64) (loss, slope, mag float64)
}

func init() {
	for loss, variants := range map[graph.Op][]elementwiseLoss{
		op.MSE: {{nil, func(x, t float64) (float64, float64, float64) {
			return (x - t) * (x - t), 2 * (x - t), 2 * (math.Abs(x) + math.Abs(t))
		}}},
		op.L1:    {{nil, func(x, t float64) (float64, float64, float64) { return math.Abs(x - t), sign(x - t), 1 }}},
		op.Huber: {{1.0, huber(1)}, {0.3, huber(0.3)}},
		op.BCE: {{nil, func(x, t float64) (float64, float64, float64) {
			return math.Log1p(math.Exp(x)) - x*t, 1/(1+math.Exp(-x)) - t, 1 + math.Abs(t)
		}}},
	} {
		register(loss, func(r *rig) {
			for i, v := range variants {
				for _, n := range []int{1, 33, 1025} {
					r.each(fmt.Sprint(i, "_", n), func(r *rig) { v.test(r, loss, n) })
				}
			}
			lossesLikePyTorch(r, loss)
		})
	}
}

func sign(d float64) float64 {
	if d == 0 {
		return 0
	}
	return math.Copysign(1, d)
}

func huber(delta float64) func(x, t float64) (loss, slope, mag float64) {
	return func(x, t float64) (float64, float64, float64) {
		d := x - t
		if math.Abs(d) > delta {
			return delta * (math.Abs(d) - delta/2), sign(d) * delta, delta
		}
		return d * d / 2, d, math.Abs(x) + math.Abs(t)
	}
}

func (v elementwiseLoss) test(r *rig, loss graph.Op, n int) {
	if r.d != r.base {
		r.t.Skip("losses are computed in f32 or f64 under every policy")
	}
	x := r.normal(1, n)
	t := tensor.New(r.base, 1, n)
	sum, dx := newWant(1), newWant(n)
	for i := range n {
		t.Set(i, r.rnd.NormFloat64())
		l, slope, mag := v.f(x.v[i], t.At(i))
		sum.add(0, l)
		sum.mag[0] += mag * mag
		dx.v[i], dx.mag[i] = slope*64/float64(n), 64*mag/float64(n)
	}
	sum.terms, dx.terms = functionTerms+float64(n), functionTerms
	r.loss(loss, v.attr, x, t, sum, float64(n), dx)
}

// loss runs a loss that should be the sum over n and have the gradient dx, at a scale of 64:
// alone, and its gradient beside the output and over it.
func (r *rig) loss(name graph.Op, attr any, x *arg, t tensor.Tensor, sum want, n float64, dx want) {
	r.t.Helper()
	r.parts.Target, r.parts.Batch = t.Spec(), t.Shape[0]
	tgt := &arg{Operand: plan.Operand{Spec: t.Spec(), Place: plan.PlaceTarget}}
	a := plan.Args{Target: t.Data, LossScale: 64}
	g := r.output(x.Spec.Shape...)
	r.step(name, attr, []*arg{x, tgt}, []*arg{r.stats()})
	if res := r.run(a); res.Err != nil || !(math.Abs(res.Loss*n-sum.v[0]) <= sum.tolerance(r, 0, r.base)) {
		r.t.Errorf("loss %v, want %v (%v)", res.Loss*n, sum.v[0], res.Err)
	}
	r.step(op.GradOp(name), attr, []*arg{x, tgt}, []*arg{g})
	r.run(a)
	r.check("dx", g, dx)
	r.step(op.GradOp(name), attr, []*arg{x, tgt}, []*arg{x})
	r.run(a)
	r.check("dx over x", x, dx)
}

// losses.json has what PyTorch's losses give in float64; testdata/losses.py wrote it.
//
//go:embed testdata/losses.json
var torchLosses []byte

type torchLoss struct {
	Name             graph.Op
	Soft             bool // targets are rows of numbers
	Smoothing, Delta float64
	Weights          []float64
	X, Target, Dx    []float64 // 6 rows
	Loss             float64
}

var lossValues = sync.OnceValue(func() (all []torchLoss) {
	if err := json.Unmarshal(torchLosses, &all); err != nil {
		panic(err)
	}
	return all
})

// lossesLikePyTorch compares a loss with PyTorch's, with each of the settings that values are there for.
func lossesLikePyTorch(r *rig, name graph.Op) {
	cases := 0
	for i, c := range lossValues() {
		if c.Name == name {
			cases++
			r.each(fmt.Sprint("as_in_pytorch_", i), c.test)
		}
	}
	if cases == 0 {
		r.t.Errorf("there are no values of PyTorch's %s: add it to testdata/losses.py and run that", name)
	}
}

func (c torchLoss) attr() any {
	switch c.Name {
	case op.CrossEntropy:
		return op.CrossEntropyAttr{Smoothing: c.Smoothing, Weights: c.Weights}
	case op.Huber:
		return c.Delta
	}
	return nil
}

func (c torchLoss) test(r *rig) {
	if r.d != r.base {
		r.t.Skip("losses are computed in f32 or f64 under every policy")
	}
	const rows = 6
	cols := len(c.X) / rows
	t, x := tensor.New(r.base, rows, cols), r.given(c.X, rows, cols)
	if !c.Soft {
		t = tensor.New(tensor.I32, rows)
	}
	for i, v := range c.Target {
		t.Set(i, v)
	}
	sum, dx := newWant(1), newWant(len(c.X))
	sum.v[0], sum.mag[0], sum.terms, dx.terms = c.Loss, 30, functionTerms, functionTerms
	for i, v := range c.Dx {
		dx.v[i], dx.mag[i] = 64*v, 64
	}
	r.loss(c.Name, c.attr(), x, t, sum, 1, dx)
}
