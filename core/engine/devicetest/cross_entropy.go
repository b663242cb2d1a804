package devicetest

import (
	"fmt"
	"math"
	"strings"

	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/plan"
	"github.com/trainctl/trainctl/core/tensor"
)

func init() {
	register(op.CrossEntropy, crossEntropies)
}

func crossEntropies(r *rig) {
	if r.d != r.base {
		r.t.Skip("losses are computed in f32 or f64 under every policy")
	}
	for _, s := range [][]int{{1, 1}, {3, 10}, {100, 10}, {7, 1000}, {2, 257}, {2100, 3}, {4, 6, 65}, {2, 3, 2, 5}} {
		r.each(shapeName(s...), func(r *rig) { crossEntropy(r, s) })
	}
	r.each("wrong_class", wrongClass)
	lossesLikePyTorch(r, op.CrossEntropy)
}

// stats is where a loss reports.
func (r *rig) stats() *arg { return &arg{Operand: r.parts.StatsOperand()} }

// classes is a batch of targets, of their number or of a given shape.
func (r *rig) classes(t []int32, shape ...int) (*arg, []byte) {
	if len(shape) == 0 {
		shape = []int{len(t)}
	}
	b := tensor.New(tensor.I32, shape...)
	copy(b.I32(), t)
	r.parts.Target, r.parts.Batch = b.Spec(), shape[0]
	return &arg{Operand: plan.Operand{Spec: b.Spec(), Place: plan.PlaceTarget}}, b.Data
}

const ignored = -100 // PyTorch's ignore_index

// crossEntropy is the loss of logits of a shape, whose targets have all dimensions but the last.
func crossEntropy(r *rig, shape []int) {
	rows, classes := op.Rows(shape)
	v := make([]float64, rows*classes)
	for i := range v {
		v[i] = 4 * r.rnd.NormFloat64()
	}
	v[0] = 95 // exp of it overflows single precision
	x, target := r.given(v, shape...), make([]int32, rows)
	for i := range target {
		if target[i] = int32(r.rnd.IntN(classes)); i%5 == 4 {
			target[i] = ignored
		}
	}
	const scale = 256.0
	loss, dx, counted, correct := softmaxLoss(x.v, target, classes, scale)
	tgt, data := r.classes(target, shape[:len(shape)-1]...)
	check := func(res plan.Result) {
		r.t.Helper()
		if got := res.Loss * counted; res.Err != nil || !(math.Abs(got-loss.v[0]) <= loss.tolerance(r, 0, r.base)) || res.Correct != correct {
			r.t.Errorf("loss %v and %d right (%v), want %v and %d", got, res.Correct, res.Err, loss.v[0], correct)
		}
	}
	a := plan.Args{Target: data, LossScale: 2 * scale, LossDivisor: 2}
	g := r.output(shape...)
	r.step(op.CrossEntropy, nil, []*arg{x, tgt}, []*arg{r.stats()})
	check(r.run(a))
	r.step(op.CrossEntropy, nil, []*arg{x, tgt}, []*arg{r.stats(), g})
	check(r.run(a))
	r.check("dx", g, dx)
	check(r.crossEntropyInBlocks(a, x, tgt, rows/2, classes, dx))
	over := r.given(v, shape...)
	r.step(op.CrossEntropy, nil, []*arg{over, tgt}, []*arg{r.stats(), over})
	check(r.run(a))
	r.check("dx over x of the loss", over, dx)
	r.step(op.CrossEntropyGrad, nil, []*arg{x, tgt}, []*arg{x})
	r.run(a)
	r.check("dx over x", x, dx)
}

// softmaxLoss is the sum of the losses of rows of logits, the gradient of scale times their
// mean, and how many rows have a target and are right.
func softmaxLoss(x []float64, target []int32, classes int, scale float64) (loss, dx want, counted float64, correct int) {
	loss, dx = newWant(1), newWant(len(x))
	for i, t := range target {
		if t == ignored {
			continue
		}
		counted++
		row := x[i*classes:][:classes]
		peak, at, sum := row[0], 0, 0.0
		for j, a := range row {
			if a > peak {
				peak, at = a, j
			}
		}
		for _, a := range row {
			sum += math.Exp(a - peak)
		}
		if at == int(t) {
			correct++
		}
		loss.add(0, math.Log(sum)+peak-row[t])
		loss.mag[0] += math.Abs(peak) + math.Abs(row[t])
		for j, a := range row {
			p := math.Exp(a-peak) / sum
			dx.v[i*classes+j], dx.mag[i*classes+j] = p*scale, p*scale*(1+math.Abs(a-peak))
			if j == int(t) {
				dx.v[i*classes+j] -= scale
				dx.mag[i*classes+j] += scale
			}
		}
	}
	for i := range dx.v {
		dx.v[i] /= counted
		dx.mag[i] /= counted
	}
	loss.terms, dx.terms = functionTerms+counted, functionTerms+float64(classes)
	return loss, dx, counted, correct
}

// crossEntropyInBlocks runs a step for the rows before at and one for the others.
func (r *rig) crossEntropyInBlocks(a plan.Args, x, tgt *arg, at, classes int, dx want) plan.Result {
	r.t.Helper()
	var steps []plan.Step
	var grads []*arg
	bounds := []int{0, at * classes, len(x.v)}
	for i, lo := range bounds[:2] {
		v := x.v[lo:bounds[i+1]]
		if len(v) == 0 {
			continue
		}
		part, g := r.given(v, len(v)/classes, classes), r.output(len(v)/classes, classes)
		r.step(op.CrossEntropy, nil, []*arg{part, tgt}, []*arg{r.stats(), g})
		r.parts.Steps[0].Row = lo / classes
		steps, grads = append(steps, r.parts.Steps...), append(grads, g)
	}
	r.parts.Steps = steps
	res := r.run(a)
	for _, g := range grads {
		n := g.Spec.Shape.Elems()
		r.check("dx of a block", g, want{v: dx.v[:n], mag: dx.mag[:n], terms: dx.terms})
		dx.v, dx.mag = dx.v[n:], dx.mag[n:]
	}
	return res
}

// refuses runs a step over a batch with an index out of range.
func (r *rig) refuses(a plan.Args, op graph.Op, at, value, limit int) {
	r.t.Helper()
	want := fmt.Sprintf("element %d of the batch is %d, outside 0 to %d", at, value, limit-1)
	if res := r.run(a); res.Err == nil || !strings.Contains(res.Err.Error(), want) {
		r.t.Errorf("%s: error %v, want %q", op, res.Err, want)
	}
}

// wrongClass: the first wrong target is named, and the device is good for the next batch.
func wrongClass(r *rig) {
	const rows, classes = 6, 4
	x, g := r.normal(rows, classes), r.output(rows, classes)
	tgt, data := r.classes([]int32{0, ignored, 4, 3, -1, 2})
	r.step(op.CrossEntropy, nil, []*arg{x, tgt}, []*arg{r.stats(), g})
	r.refuses(plan.Args{Target: data}, op.CrossEntropy, 2, 4, classes)
	tensor.View[int32](data)[2] = 1
	r.refuses(plan.Args{Target: data}, op.CrossEntropy, 4, -1, classes)
	tensor.View[int32](data)[4] = 1
	if res := r.run(plan.Args{Target: data}); res.Err != nil {
		r.t.Errorf("the next batch: %v", res.Err)
	}
}
