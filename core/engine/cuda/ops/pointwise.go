package ops

import (
	"strings"

	"github.com/trainctl/trainctl/core/engine/cuda/driver"
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
			if s.Op == op.GradAgainOp(d.Name) {
				implement(s.Op, bindGradAgain)
			}
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
	if b.s.Op == op.Of(b.s.Op).Name {
		b.pointwise(b.s.Op, b.in(0), b.out(0))
	} else {
		b.pointwise(b.s.Op, b.in(0), b.in(1), b.out(0))
	}
}

// bindGradAgain runs the gradient and then the function, whose output may lie over x.
func bindGradAgain(b *binder) {
	d := op.Of(b.s.Op)
	b.pointwise(op.GradOp(d.Name), b.in(0), b.in(1), b.out(0))
	b.pointwise(d.Name, b.in(0), b.out(1))
}

// pointwise launches the kernel of a step with tensors as its first arguments.
func (b *binder) pointwise(step graph.Op, tensors ...driver.DevicePtr) {
	d, x := op.Of(step), b.s.In[0].Spec
	var args []any
	for _, t := range tensors {
		args = append(args, t)
	}
	given, _ := b.s.Attr.(op.Scalars)
	for i := range d.Keys {
		args = append(args, scalar(x.DType, given[i]))
	}
	b.elementwise(x.DType, kernelOf(d, step), x.Shape.Elems(), args...)
}

// scalar is v in the type that kernels for d compute in.
func scalar(d tensor.DType, v float64) any {
	if d == tensor.F64 {
		return v
	}
	return float32(v)
}
