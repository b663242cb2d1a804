package onnx

import (
	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/engine/op"
	_ "github.com/trainctl/trainctl/core/engine/op/activation" // its definitions
)

// formOf is how an operation is written, nil if it cannot be. Pointwise functions have
// a formula in their definition.
func formOf(o graph.Op) form {
	d := op.Of(o)
	if write := forms[o]; write != nil || d.Pointwise.Formula == nil {
		return write
	}
	return func(b *builder, n *graph.Node) error {
		s, _ := n.Attr.(op.Scalars)
		return b.put(n, string(d.Pointwise.Formula(formula{b}, op.Operand(b.in(n, 0)), s)))
	}
}

// formula writes a formula's operators.
type formula struct{ b *builder }

func (f formula) Apply(operator string, x ...op.Operand) op.Operand {
	in := make([]string, len(x))
	for i, o := range x {
		in[i] = string(o)
	}
	return op.Operand(f.b.add(operator, in))
}

func (f formula) Value(v float64) op.Operand {
	return op.Operand(f.b.floats("value", nil, float32(v)))
}
