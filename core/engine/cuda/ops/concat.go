package ops

import (
	"github.com/trainctl/trainctl/core/engine/cuda/driver"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/plan"
)

func init() {
	implement(op.Concat, bindJoin)
	implement(op.ConcatGrad, bindCut)
	implement(op.Split, bindCut)
	implement(op.SplitGrad, bindJoin)
}

// bindJoin takes zeros for the gradient of a part that nothing read.
func bindJoin(b *binder) {
	b.pieces(&b.s.Out[0], func(i, rows, width, stride, start int) {
		var x driver.DevicePtr
		if b.s.In[i].Present() {
			x = b.in(i)
		}
		b.elementwise(b.s.Out[0].Spec.DType, "copy_rows", rows*width, x, width, 0, b.out(0), stride, start, width)
	})
}

// bindCut leaves out the parts that no step reads.
func bindCut(b *binder) {
	b.pieces(&b.s.In[0], func(i, rows, width, stride, start int) {
		if b.s.Out[i].Present() {
			b.elementwise(b.s.In[0].Spec.DType, "copy_rows", rows*width, b.in(0), stride, start, b.out(i), width, 0, width)
		}
	})
}

// pieces describes the whole, with the batch, as rows of the dimensions from the
// axis on, and each part as elements of these rows.
func (b *binder) pieces(whole *plan.Operand, use func(i, rows, width, stride, start int)) {
	a, shape := b.s.Attr.(op.PartsAttr), whole.Spec.Shape
	rows := shape[:a.Axis+1].Elems()
	stride, at := shape.Elems()/rows, 0
	for i, n := range a.Sizes {
		width := stride / shape[a.Axis+1] * n
		use(i, rows, width, stride, at)
		at += width
	}
}
