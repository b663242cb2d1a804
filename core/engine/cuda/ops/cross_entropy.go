package ops

import (
	"github.com/trainctl/trainctl/core/engine/cuda/driver"
	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/tensor"
)

func init() {
	implement(op.CrossEntropy, bindCrossEntropy)
	implement(op.CrossEntropyGrad, bindCrossEntropy)
}

// ignoreIndex marks a row that counts for nothing, as in PyTorch's cross_entropy.
const ignoreIndex = -100

// manyRows is where it is more work for every row to count all targets than to launch a kernel for it.
const manyRows = 2048

// lossOut finds what a loss step writes: its report, its gradient, or both.
func (b *binder) lossOut(loss graph.Op) (stats, dx driver.DevicePtr) {
	if b.s.Op != loss {
		return 0, b.out(0)
	}
	return b.m.Stats, b.out(1)
}

func bindCrossEntropy(b *binder) {
	x := b.s.In[0].Spec
	rows, classes := op.Rows(x.Shape)
	stats, dx := b.lossOut(op.CrossEntropy)
	counted, each := b.scratch(8), b.scratch(16*rows)
	fault := b.m.Fault
	targets := b.s.In[1].Spec.Shape.Elems()
	if targets > manyRows {
		b.launch(x.DType, "check_indices", 1, 1, b.in(1), targets, classes, ignoreIndex, b.step, fault, counted)
		fault = 0
	}
	b.launch(x.DType, "cross_entropy", rows, 1, b.in(0), b.in(1), b.s.Row, targets, classes, ignoreIndex, b.step, fault, b.m.Call, counted, dx, each)
	b.report(x.DType, each, rows, counted, stats)
}

func (b *binder) report(d tensor.DType, rows driver.DevicePtr, n int, counted, stats driver.DevicePtr) {
	if stats != 0 {
		b.launch(d, "report", 1, 1, rows, n, counted, stats, flag(b.s.Row > 0))
	}
}
