package cuda

import (
	"github.com/trainctl/trainctl/core/op"
	"github.com/trainctl/trainctl/core/tensor"
)

// A pointwise function is its file kernels/NAME.cu: a kernel NAME_of from x to y,
// and NAME_grad from what the operation saves and dy to dx. Both take the
// operation's arguments in the order of its keys, and the number of elements.
func init() {
	for _, d := range op.All() {
		if _, err := files.Open("kernels/" + string(d.Name) + ".cu"); err == nil && d.Pointwise.Saved != op.SavedNothing {
			for _, s := range d.Steps {
				if bindings[s.Op] == nil {
					implement(s.Op, bindPointwise)
				}
			}
		}
	}
}

func bindPointwise(b *binder) {
	d, x := op.Of(b.s.Op), b.s.In[0].Spec
	name, args := string(b.s.Op), []any{b.in(0)}
	if b.s.Op == d.Name {
		name += "_of"
	} else {
		args = append(args, b.in(1))
	}
	args = append(args, b.out(0))
	given, _ := b.s.Attr.(op.Scalars)
	for i := range d.Keys {
		args = append(args, scalar(x.DType, given[i]))
	}
	b.elementwise(x.DType, name, x.Shape.Elems(), args...)
}

// scalar is v in the type that kernels for d compute in.
func scalar(d tensor.DType, v float64) any {
	if d == tensor.F64 {
		return v
	}
	return float32(v)
}
