package ops

import (
	"strings"

	"github.com/trainctl/trainctl/core/engine/cuda/kernels"
	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/tensor"
)

// A pointwise function is its file kernels/NAME.cu: a kernel NAME_of from x to y,
// and NAME_grad from what the operation saves and dy to dx. Both take the
// operation's arguments in the order of its keys, and the number of elements.
func init() {
	for _, d := range op.All() {
		source, err := kernels.Text(string(d.Name))
		if err != nil || d.Pointwise.Saved == op.SavedNothing {
			continue
		}
		for _, s := range d.Steps {
			if bindings[s.Op] == nil && strings.Contains(source, "KERNEL "+kernelOf(d, s.Op)+"(") {
				implement(s.Op, bindPointwise)
			}
		}
	}
}

// kernelOf is the kernel of a step of a pointwise function. tanh itself is taken, so the forward one has an ending.
func kernelOf(d *op.Definition, step graph.Op) string {
	if step == d.Name {
		return string(step) + "_of"
	}
	return string(step)
}

func bindPointwise(b *binder) {
	d, x := op.Of(b.s.Op), b.s.In[0].Spec
	args := []any{b.in(0)}
	if b.s.Op != d.Name {
		args = append(args, b.in(1))
	}
	args = append(args, b.out(0))
	given, _ := b.s.Attr.(op.Scalars)
	for i := range d.Keys {
		args = append(args, scalar(x.DType, given[i]))
	}
	b.elementwise(x.DType, kernelOf(d, b.s.Op), x.Shape.Elems(), args...)
}

// scalar is v in the type that kernels for d compute in.
func scalar(d tensor.DType, v float64) any {
	if d == tensor.F64 {
		return v
	}
	return float32(v)
}
