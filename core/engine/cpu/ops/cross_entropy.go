package ops

import (
	"github.com/trainctl/trainctl/core/engine/cpu/bind"
	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/loss"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/plan"
	"github.com/trainctl/trainctl/core/tensor"
)

func init() {
	both := bind.Implementation{F32: bindCrossEntropy[float32], F64: bindCrossEntropy[float64]}
	bind.Implement(op.CrossEntropy, both)
	bind.Implement(op.CrossEntropyGrad, both)
}

// ignoreIndex marks a row that counts for nothing, as in PyTorch's cross_entropy.
const ignoreIndex = -100

// lossOut finds what a loss step writes: its report, its gradient, or both.
func lossOut[T kernel.Float](b *bind.Binder[T], loss graph.Op) (stats []float64, dx []T) {
	if b.Step.Op != loss {
		dx, _ = b.Out(0)
		return nil, dx
	}
	dx, _ = b.Out(1)
	return bind.Index[float64](b.Memory, &b.Step.Out[0]), dx
}

func bindCrossEntropy[T kernel.Float](b *bind.Binder[T]) bind.Job {
	rows, classes := op.Rows(b.Step.In[0].Spec.Shape)
	x, target := b.In(0), b.Memory.Place(&b.Step.In[1])
	stats, dx := lossOut(b, op.CrossEntropy)
	first := b.Step.Row
	return func(c *plan.Call) {
		t := tensor.View[int32](target.Bytes(c))
		if !b.Memory.Check("target class", t, classes, ignoreIndex) {
			return
		}
		scale := T(c.GradScale / float64(countRows(t)))
		sum, counted, correct := loss.SoftmaxCrossEntropy(rows, classes, x(c), t[first:], ignoreIndex, 0, nil, dx, scale)
		if stats == nil {
			return
		}
		if first == 0 {
			clear(stats)
		}
		stats[0] += sum
		stats[1] += float64(counted)
		stats[2] += float64(correct)
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
