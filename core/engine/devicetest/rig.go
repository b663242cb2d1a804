package devicetest

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/engine/plan"
	"github.com/trainctl/trainctl/core/tensor"
)

// rig is the memory of one operation on its own: all its operands are tensors
// of the State, where the test can see them.
type rig struct {
	t       *testing.T
	opt     Options
	dev     plan.Device
	d, base tensor.DType // of activations; of statistics and losses
	rnd     *rand.Rand
	parts   plan.Parts
	st      plan.State
}

// arg is an operand with what it held before the operation ran.
type arg struct {
	plan.Operand
	v []float64
}

func newRig(t *testing.T, o Options, d tensor.DType) *rig {
	base := tensor.F32
	if d == tensor.F64 {
		base = tensor.F64
	}
	return &rig{
		t: t, opt: o, dev: o.Device(), d: d, base: base, rnd: rand.New(rand.NewPCG(1, 2)),
		parts: plan.Parts{Batch: 1, Train: true, DType: base},
	}
}

func (r *rig) place(d tensor.DType, v []float64, shape []int) *arg {
	t := tensor.New(d, shape...)
	for i, x := range v {
		t.Set(i, x)
	}
	r.st.Tensors = append(r.st.Tensors, t)
	r.parts.State = append(r.parts.State, t.Spec())
	return &arg{plan.Operand{Spec: t.Spec(), Place: plan.PlaceState, Index: len(r.st.Tensors) - 1}, values(t)}
}

// normal is an input of the activations' type, drawn from a normal distribution.
func (r *rig) normal(shape ...int) *arg { return r.normalAs(r.d, shape...) }

func (r *rig) normalAs(d tensor.DType, shape ...int) *arg {
	v := make([]float64, tensor.Shape(shape).Elems())
	for i := range v {
		v[i] = r.rnd.NormFloat64()
	}
	return r.place(d, v, shape)
}

// given is an input of the activations' type with given values.
func (r *rig) given(v []float64, shape ...int) *arg { return r.place(r.d, v, shape) }

// output is poisoned: what the operation does not write is a NaN.
func (r *rig) output(shape ...int) *arg { return r.outputAs(r.d, shape...) }

func (r *rig) outputAs(d tensor.DType, shape ...int) *arg {
	v := make([]float64, tensor.Shape(shape).Elems())
	for i := range v {
		v[i] = -77
		if d.Float() {
			v[i] = math.NaN()
		}
	}
	return r.place(d, v, shape)
}

// gradient is a parameter's gradient, poisoned too.
func (r *rig) gradient(d tensor.DType, shape ...int) *arg {
	t := tensor.New(d, shape...)
	for i := range t.Shape.Elems() {
		t.Set(i, math.NaN())
	}
	r.st.Grads = append(r.st.Grads, t)
	r.parts.Grads = append(r.parts.Grads, t.Spec())
	return &arg{Operand: plan.Operand{Spec: t.Spec(), Place: plan.PlaceGrad, Index: len(r.st.Grads) - 1}}
}

// step is the operation with its operands; nil ones are absent.
func (r *rig) step(op graph.Op, attr any, in, out []*arg) {
	r.opt.ran[op] = true
	s := plan.Step{Op: op, Layer: string(op), Attr: attr, Train: r.parts.Train}
	operands := func(list []*arg) (o []plan.Operand) {
		for _, a := range list {
			if a == nil {
				a = &arg{}
			}
			o = append(o, a.Operand)
		}
		return o
	}
	s.In, s.Out = operands(in), operands(out)
	for _, o := range s.Out {
		if o.Place == plan.PlaceGrad {
			s.Complete = append(s.Complete, o.Index)
		}
	}
	r.parts.Steps = []plan.Step{s}
}

// again puts a second step behind the first, which adds to the gradients that that one wrote.
func (r *rig) again() {
	first := &r.parts.Steps[0]
	second := *first
	second.Out = slices.Clone(first.Out)
	for i := range second.Out {
		second.Out[i].Add = second.Out[i].Place == plan.PlaceGrad
	}
	first.Complete = nil
	r.parts.Steps = append(r.parts.Steps, second)
}

// run runs the step.
func (r *rig) run(a plan.Args) plan.Result {
	r.t.Helper()
	prog, err := plan.Assemble(r.parts).Bind(r.dev, r.st)
	if err != nil {
		r.t.Fatal(err)
	}
	res := prog.Run(a)
	if err := prog.Close(); err != nil {
		r.t.Error(err)
	}
	return res
}

// do runs the step and fails the test on an error.
func (r *rig) do(op graph.Op, attr any, in, out []*arg) {
	r.t.Helper()
	r.step(op, attr, in, out)
	if res := r.run(plan.Args{}); res.Err != nil {
		r.t.Fatal(res.Err)
	}
}

// tensor is where an operand lies.
func (r *rig) tensor(a *arg) tensor.Tensor {
	if a.Place == plan.PlaceGrad {
		return r.st.Grads[a.Index]
	}
	return r.st.Tensors[a.Index]
}

// now are an operand's present values.
func (r *rig) now(a *arg) []float64 { return values(r.tensor(a)) }

func values(t tensor.Tensor) []float64 {
	v := make([]float64, t.Shape.Elems())
	for i := range v {
		v[i] = t.At(i)
	}
	return v
}
