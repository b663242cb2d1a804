package ops

import (
	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/engine/op"
)

func init() {
	for kind, loss := range []graph.Op{op.MSE, op.L1, op.Huber, op.BCE} { // in the order of loss.cu
		bind := func(b *binder) { b.lossOfElements(loss, kind) }
		implement(loss, bind)
		implement(op.GradOp(loss), bind)
	}
}

func (b *binder) lossOfElements(loss graph.Op, kind int) {
	x := b.s.In[0].Spec
	n := x.Shape.Elems()
	delta, _ := b.s.Attr.(float64)
	stats, dx := b.lossOut(loss)
	counted, each := b.scratch(8), b.scratch(16*grid(n))
	b.elementwise(x.DType, "losses_of_elements", n, b.in(0), b.in(1), kind, delta, b.m.Call, dx, each, counted)
	b.report(x.DType, each, grid(n), counted, stats)
}
