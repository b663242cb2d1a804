package ops

import (
	"github.com/trainctl/trainctl/core/engine/cuda/driver"
	"github.com/trainctl/trainctl/core/engine/cuda/gpu"
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
	if a, ok := b.s.Attr.(op.CrossEntropyAttr); ok && (a.Smoothing != 0 || a.Weights != nil) || b.s.In[1].Spec.DType.Float() {
		b.criterion(a, rows, classes, stats, dx)
		return
	}
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

// criterion is the cross-entropy with settings, or with probabilities for targets.
func (b *binder) criterion(a op.CrossEntropyAttr, rows, classes int, stats, dx driver.DevicePtr) {
	d := b.s.In[0].Spec.DType
	counted, each := b.scratch(16), b.scratch(16*rows)
	weights := b.constants(a.Weights)
	index, soft := b.in(1), driver.DevicePtr(0)
	if b.s.In[1].Spec.DType.Float() {
		index, soft = 0, index
		b.launch(d, "count_rows", 1, 1, rows, counted)
	} else {
		targets := b.s.In[1].Spec.Shape.Elems()
		b.launch(d, "check_indices", 1, 1, index, targets, classes, ignoreIndex, b.step, b.m.Fault, counted)
		b.launch(d, "weigh_targets", 1, 1, index, weights, targets, classes, ignoreIndex, counted)
	}
	b.launch(d, "criterion", rows, 1, b.in(0), index, soft, b.s.Row, classes, ignoreIndex, a.Smoothing, weights, b.m.Call, counted, dx, each)
	b.report(d, each, rows, counted, stats)
}

// constants are numbers in memory of the program; 0 for none.
func (b *binder) constants(v []float64) driver.DevicePtr {
	if len(v) == 0 {
		return 0
	}
	at := b.keep(8 * len(v))
	if b.measure || b.err != nil {
		return 0
	}
	if b.err = b.g.Put(at, tensor.Bytes(v)); b.err == nil {
		b.err = b.g.Finish(gpu.Doing("weights of classes"))
	}
	return at
}

func (b *binder) report(d tensor.DType, rows driver.DevicePtr, n int, counted, stats driver.DevicePtr) {
	if stats != 0 {
		b.launch(d, "report", 1, 1, rows, n, counted, stats, flag(b.s.Row > 0))
	}
}
