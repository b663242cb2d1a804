package ops

import (
	"github.com/trainctl/trainctl/core/engine/cpu/bind"
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/norm"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/plan"
)

func init() {
	bind.Implement(op.SyncBatchNorm, bind.Implementation{F32: bindSyncBatchNorm[float32], F64: bindSyncBatchNorm[float64]})
	bind.Implement(op.SyncBatchNormGrad, bind.Implementation{F32: bindSyncBatchNormGrad[float32], F64: bindSyncBatchNormGrad[float64]})
}

// bindSyncBatchNorm normalises with the statistics of all ranks' batches. Ranks
// exchange [means, biased variances, count] once per layer, as
// torch/nn/modules/_functions.py does.
func bindSyncBatchNorm[T kernel.Float](b *bind.Binder[T]) bind.Job {
	n, ch, hw := planes(b.Step.In[0].Spec.Shape)
	a := b.Step.Attr.(op.BatchNormAttr)
	x, weight, bias := b.In(0), b.In(1), b.In(2)
	running := runningStats[T]{mean: b.State(3), variance: b.State(4), batches: bind.Index[int64](b.Memory, &b.Step.In[5]), momentum: a.Momentum}
	y, _ := b.Out(0)
	mean, _ := b.Out(1)
	invstd, _ := b.Out(2)
	mine := make([]float64, b.Step.Exchanges())
	return func(c *plan.Call) {
		norm.BatchNormStats(n, ch, hw, x(c), mean, invstd)
		pack(mine, mean, invstd, n*hw)
		all := gather(c, mine)
		if c.Err != nil {
			return
		}
		plan.MergeMoments(all, ch, func(i int, mu, variance, count float64) {
			mean[i], invstd[i], running.count = T(mu), T(variance), count
		})
		running.update(mean, invstd)
		invert(invstd, invstd, a.Eps)
		norm.BatchNormApply(n, ch, hw, x(c), mean, invstd, weight(c), bias(c), y)
	}
}

// bindSyncBatchNormGrad adds up Σdy, Σdy·(x−mean) and the count over ranks for
// the input's gradient. Those of weight and bias stay this rank's: they are
// averaged with all other gradients.
func bindSyncBatchNormGrad[T kernel.Float](b *bind.Binder[T]) bind.Job {
	n, ch, hw := planes(b.Step.In[0].Spec.Shape)
	x, dy, mean, invstd, weight := b.In(0), b.In(1), b.In(2), b.In(3), b.In(4)
	dx, dw, db, add := normOut(b)
	sumDy, sumDyXmu := make([]T, ch), make([]T, ch)
	sums := make([]float64, b.Step.Exchanges())
	return func(c *plan.Call) {
		norm.BatchNormGradReduce(n, ch, hw, x(c), dy(c), mean(c), sumDy, sumDyXmu)
		affineGrad(sumDy, sumDyXmu, invstd(c), dw, db, add(c))
		if dx == nil {
			return
		}
		pack(sums, sumDy, sumDyXmu, n*hw)
		if sum(c, sums); c.Err != nil {
			return
		}
		narrow(sumDy, sums)
		narrow(sumDyXmu, sums[ch:])
		norm.BatchNormGradInput(n, ch, hw, sums[2*ch], x(c), dy(c), mean(c), invstd(c), weight(c), sumDy, sumDyXmu, dx)
	}
}

// affineGrad writes or adds the gradients of weight and bias; each may be nil.
func affineGrad[T kernel.Float](sumDy, sumDyXmu, invstd, dw, db []T, add bool) {
	if !add {
		clear(dw)
		clear(db)
	}
	for i := range dw {
		dw[i] += sumDyXmu[i] * invstd[i]
	}
	for i := range db {
		db[i] += sumDy[i]
	}
}

// pack writes [a, b, count].
func pack[T kernel.Float](dst []float64, a, b []T, count int) {
	for i := range a {
		dst[i], dst[len(a)+i] = float64(a[i]), float64(b[i])
	}
	dst[2*len(a)] = float64(count)
}

func narrow[T kernel.Float](dst []T, src []float64) {
	for i := range dst {
		dst[i] = T(src[i])
	}
}

// gather and sum call the run's exchange, unless this rank is alone.
func gather(c *plan.Call, mine []float64) (all []float64) {
	if c.Exchange == nil {
		return mine
	}
	all, c.Err = c.Exchange.Gather(mine)
	return all
}

func sum(c *plan.Call, v []float64) {
	if c.Exchange != nil {
		c.Err = c.Exchange.Sum(v)
	}
}
