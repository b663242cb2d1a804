package cpu

import (
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/norm"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/plan"
)

func init() {
	implement(op.SyncBatchNorm, implementation{f32: bindSyncBatchNorm[float32], f64: bindSyncBatchNorm[float64]})
	implement(op.SyncBatchNormGrad, implementation{f32: bindSyncBatchNormGrad[float32], f64: bindSyncBatchNormGrad[float64]})
}

// bindSyncBatchNorm normalises with the statistics of all ranks' batches. Ranks
// exchange [means, biased variances, count] once per layer, as
// torch/nn/modules/_functions.py does.
func bindSyncBatchNorm[T kernel.Float](b *binder[T]) job {
	n, ch, hw := planes(b.s.In[0].Spec.Shape)
	a := b.s.Attr.(op.BatchNormAttr)
	x, weight, bias := b.in(0), b.in(1), b.in(2)
	running := runningStats[T]{mean: b.state(3), variance: b.state(4), batches: index[int64](b.m, &b.s.In[5]), momentum: a.Momentum}
	y, _ := b.out(0)
	mean, _ := b.out(1)
	invstd, _ := b.out(2)
	mine := make([]float64, b.s.Exchanges())
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
func bindSyncBatchNormGrad[T kernel.Float](b *binder[T]) job {
	n, ch, hw := planes(b.s.In[0].Spec.Shape)
	x, dy, mean, invstd, weight := b.in(0), b.in(1), b.in(2), b.in(3), b.in(4)
	dx, dw, db, add := b.normOut()
	sumDy, sumDyXmu := make([]T, ch), make([]T, ch)
	sums := make([]float64, b.s.Exchanges())
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
