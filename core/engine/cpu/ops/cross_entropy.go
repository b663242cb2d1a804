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

// tiny is divided by where no row counts, so that nothing becomes NaN.
const tiny = 0x1p-100

func bindCrossEntropy[T kernel.Float](b *bind.Binder[T]) bind.Job {
	rows, classes := op.Rows(b.Step.In[0].Spec.Shape)
	a, _ := b.Step.Attr.(op.CrossEntropyAttr)
	how := loss.Criterion{Ignore: ignoreIndex, Smoothing: a.Smoothing, Weights: a.Weights}
	if b.Step.In[1].Spec.DType.Float() {
		return bindSoftCrossEntropy(b, rows, classes, how)
	}
	x, target := b.In(0), b.Memory.Place(&b.Step.In[1])
	stats, dx := lossOut(b, op.CrossEntropy)
	first := b.Step.Row
	var t []int32
	var scale T
	perRow := 1.0 // makes the sum over rows, divided by their number, the weighted mean
	share := lossParts(b, rows, max(1, bind.ShareElems/classes), func(c *plan.Call, lo, hi int) (sum, counted, correct float64) {
		var grad []T
		if dx != nil {
			grad = dx[lo*classes : hi*classes]
		}
		s, n, right := loss.SoftmaxCrossEntropy(hi-lo, classes, x(c)[lo*classes:hi*classes], t[first+lo:first+hi], how, nil, grad, scale)
		return s * perRow, float64(n), float64(right)
	}, stats)
	return func(c *plan.Call) {
		t = tensor.View[int32](target.Bytes(c))
		if !b.Memory.Check("target class", t, classes, ignoreIndex) {
			return
		}
		n := float64(countRows(t))
		weight := n
		if how.Weights != nil {
			weight = weigh(t, how.Weights)
			perRow = n / max(weight, tiny)
		}
		scale = T(c.GradScale / max(weight, tiny))
		share(c)
	}
}

// bindSoftCrossEntropy is for targets that are probabilities of classes.
func bindSoftCrossEntropy[T kernel.Float](b *bind.Binder[T], rows, classes int, how loss.Criterion) bind.Job {
	x, target := b.In(0), b.In(1)
	stats, dx := lossOut(b, op.CrossEntropy)
	return lossParts(b, rows, max(1, bind.ShareElems/classes), func(c *plan.Call, lo, hi int) (sum, counted, correct float64) {
		var grad []T
		if dx != nil {
			grad = dx[lo*classes : hi*classes]
		}
		s, n, right := loss.SoftCrossEntropy(hi-lo, classes, x(c)[lo*classes:hi*classes], target(c)[lo*classes:hi*classes], how, grad, T(c.GradScale/float64(rows)))
		return s, float64(n), float64(right)
	}, stats)
}

// lossParts shares the n things of a loss among threads, and adds up what run reports of each
// share, in order, to stats unless that is nil: to what the rows before have added there.
func lossParts[T kernel.Float](b *bind.Binder[T], n, unit int, run func(c *plan.Call, lo, hi int) (sum, counted, correct float64), stats []float64) bind.Job {
	const line = 8 // float64: threads write to cache lines of their own
	parts := make([][line]float64, b.Memory.Workers.Size())
	share := b.Split(n, unit, func(c *plan.Call, part, lo, hi int) {
		p := &parts[part]
		p[0], p[1], p[2] = run(c, lo, hi)
	})
	first := b.Step.Row
	return func(c *plan.Call) {
		clear(parts)
		share(c)
		if stats == nil {
			return
		}
		if first == 0 {
			clear(stats)
		}
		for i := range parts {
			for j := range stats[:3] {
				stats[j] += parts[i][j]
			}
		}
	}
}

// weigh adds up the weights of the targets that count.
func weigh(target []int32, weights []float64) (sum float64) {
	for _, t := range target {
		if t != ignoreIndex {
			sum += weights[t]
		}
	}
	return sum
}

func countRows(target []int32) (n int) {
	for _, t := range target {
		if t != ignoreIndex {
			n++
		}
	}
	return n
}
