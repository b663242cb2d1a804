package op

import (
	"slices"

	"github.com/trainctl/trainctl/core/engine/graph"
)

// Pointwise is what functions of one element have in common: one input, one
// output of its shape, and a gradient dx = f'(saved)·dy.
type Pointwise struct {
	Saved Saved
	FLOPs [2]int64 // for each element, forward and backward, roughly
	Slope bool     // of a saved input: the slope costs little where the function is computed

	// Formula says the function in operators, so that other programs can compute it.
	Formula func(f Formula, x Operand, s Scalars) Operand
}

// Formula builds an expression of operators by the names that ONNX gives them
// (https://onnx.ai/onnx/operators), of operator set 17, without attributes.
type Formula interface {
	Apply(operator string, x ...Operand) Operand
	Value(v float64) Operand
}

// Operand is the name of a value in a formula.
type Operand string

// Operator is the formula of a function that is one operator.
func Operator(operator string) func(Formula, Operand, Scalars) Operand {
	return func(f Formula, x Operand, _ Scalars) Operand { return f.Apply(operator, x) }
}

// Saved is what a pointwise function keeps for its gradient.
type Saved uint8

// What is saved. SavedOutput suits functions whose slope follows from their
// output: their input can be overwritten.
const (
	SavedNothing Saved = iota // not a pointwise function
	SavedInput
	SavedOutput
)

// Scalars is the attribute of a pointwise function: its arguments in the order
// of its keys, with a string's place in its Enum.
type Scalars [2]float64

// cheap functions, of so many operations, take no longer than reading their output from memory.
const cheap = 2

// DefinePointwise completes the definition of a pointwise function and enters it.
// Keys are floats, or strings with an Enum.
func DefinePointwise(d Definition) {
	p := d.Pointwise
	d.Outputs, d.Positions = sameShape, alone
	d.Gradient = func(b *graph.Backward, n *graph.Node) {
		saved := n.In[0]
		if p.Saved == SavedOutput {
			saved = n.Out[0]
		}
		b.Through(n, GradOp(n.Op), saved)
	}
	d.Build = func(s *Site, a Args, x graph.ValueID) (graph.ValueID, error) {
		return s.apply(d.Name, scalars(d.Keys, a), x)
	}
	d.Steps = []Step{
		{Op: d.Name, Cost: PerElement(p.FLOPs[0]), InPlace: []int{0}, AnyLayout: true},
		{Op: GradOp(d.Name), Cost: PerElement(p.FLOPs[1]), InPlace: []int{1}, AnyLayout: true},
	}
	switch {
	case p.FLOPs[0] <= cheap:
		d.Steps[0].Again = Again{Op: d.Name, In: []int{0}}
	case p.Slope:
		d.Steps[0].Again = Again{Op: GradAgainOp(d.Name), Gradient: true}
		d.Steps = append(d.Steps, Step{Op: GradAgainOp(d.Name), Cost: PerElement(p.FLOPs[1] + 1), InPlace: []int{1}, Over: [][2]int{{1, 0}}, AnyLayout: true})
	}
	for i := range p.FLOPs {
		if p.FLOPs[i] == 0 { // forgotten, which is not for free
			d.Steps[i].Cost = nil
		}
	}
	define(d)
	if p.FLOPs[0] <= cheap || p.Slope {
		defineNorm(d.Name, p)
	}
}

// GradAgainOp names the gradient that makes its function's output again, for functions with a
// Slope: it reads the input and dy, and writes dx and the output.
func GradAgainOp(op graph.Op) graph.Op { return GradOp(op) + "_again" }

// scalars is nil for a function without arguments.
func scalars(keys []Key, a Args) any {
	var s Scalars
	for i, k := range keys {
		if k.Kind == String {
			s[i] = float64(slices.Index(k.Enum, a.text(k)))
		} else {
			s[i] = a.float(k)
		}
	}
	if len(keys) == 0 {
		return nil
	}
	return s
}
