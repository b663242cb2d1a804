package ops

import (
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/op/activation"
	"github.com/trainctl/trainctl/core/engine/plan"
)

func init() {
	implement(op.Add, bindAdd)
	implement(activation.ReLU, bindReLU)
}

// bindAdd clips the sum on the way to memory where the next step is the ReLU that takes its place.
func bindAdd(b *binder) {
	if next := b.step + 1; next < len(b.flow.steps) {
		y, s := &b.s.Out[0], &b.flow.steps[next]
		if s.Op == activation.ReLU && s.Branch == b.s.Branch && y.Place == plan.PlaceArena && s.In[0].Address() == y.Address() && s.Out[0].Address() == y.Address() {
			b.sum("add_relu")
			b.done[next] = true
			return
		}
	}
	b.sum("add")
}

func (b *binder) sum(kernel string) {
	x := b.s.In[0].Spec
	b.elementwise(x.DType, kernel, x.Shape.Elems(), b.in(0), b.in(1), b.out(0))
}

// bindReLU has nothing to do behind an addition that clips.
func bindReLU(b *binder) {
	if !b.done[b.step] {
		bindPointwise(b)
	}
}
