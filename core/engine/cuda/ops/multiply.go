package ops

import "github.com/trainctl/trainctl/core/engine/op"

func init() {
	implement(op.Multiply, bindMultiply)
	implement(op.MultiplyGrad, bindMultiply)
}

// bindMultiply multiplies tensors of one shape, or rows of the first by elements
// of the second; where the output is the smaller one, it takes the rows' dot products.
func bindMultiply(b *binder) {
	x := b.s.In[0].Spec
	n, out := x.Shape.Elems(), b.s.Out[0].Spec.Shape.Elems()
	rows := min(out, b.s.In[1].Spec.Shape.Elems())
	switch {
	case rows == n:
		b.elementwise(x.DType, "multiply", n, b.in(0), b.in(1), b.out(0))
	case out == n:
		b.elementwise(x.DType, "multiply_rows", n, b.in(0), b.in(1), n/rows, b.out(0))
	default:
		b.launch(x.DType, "dot_rows", rows, 1, b.in(0), b.in(1), n/rows, b.out(0))
	}
}
