package cpu

import (
	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/loss"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/plan"
	"github.com/trainctl/trainctl/core/tensor"
)

func init() {
	both := implementation{f32: bindCrossEntropy[float32], f64: bindCrossEntropy[float64]}
	implement(op.CrossEntropy, both)
	implement(op.CrossEntropyGrad, both)
}

// ignoreIndex marks a row that counts for nothing, as in PyTorch's cross_entropy.
const ignoreIndex = -100

// lossOut finds what a loss step writes: its report, its gradient, or both.
func (b *binder[T]) lossOut(loss graph.Op) (stats []float64, dx []T) {
	if b.s.Op != loss {
		dx, _ = b.out(0)
		return nil, dx
	}
	dx, _ = b.out(1)
	return index[float64](b.m, &b.s.Out[0]), dx
}

func bindCrossEntropy[T kernel.Float](b *binder[T]) job {
	rows, classes := op.Rows(b.s.In[0].Spec.Shape)
	x, target := b.in(0), b.m.place(&b.s.In[1])
	stats, dx := b.lossOut(op.CrossEntropy)
	return func(c *plan.Call) {
		t := tensor.View[int32](target.bytes(c))
		if !b.m.check("target class", t, classes, ignoreIndex) {
			return
		}
		scale := T(c.GradScale / float64(countRows(t)))
		sum, counted, correct := loss.SoftmaxCrossEntropy(rows, classes, x(c), t, ignoreIndex, 0, nil, dx, scale)
		if stats != nil {
			stats[0], stats[1], stats[2] = sum, float64(counted), float64(correct)
		}
	}
}

func countRows(target []int32) (n int) {
	for _, t := range target {
		if t != ignoreIndex {
			n++
		}
	}
	return n
}
