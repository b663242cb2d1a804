package ops

import (
	"github.com/trainctl/trainctl/core/engine/cpu/bind"
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/norm"
	"github.com/trainctl/trainctl/core/engine/kernel/pool"
	"github.com/trainctl/trainctl/core/engine/plan"
)

// Threads share the images of a batch norm, as they share those of convolutions, where that
// takes no second look at them: a thread then reads what it has written itself, and not what lies
// in the cache of another core. Each finds sums of its own images, which are added up in order.

// measure computes the means and biased variances of the channels [lo, hi) of the images [first, end).
type measure[T kernel.Float] func(c *plan.Call, first, end, lo, hi int, mean, variance []T)

// shareMoments shares images among threads, or channels if there are more threads than images.
func shareMoments[T kernel.Float](b *bind.Binder[T], n, ch, hw int, mean, variance []T, of measure[T]) bind.Job {
	threads := b.Memory.Workers.Size()
	if threads == 1 || n < threads {
		return b.Split(ch, 1, func(c *plan.Call, _, lo, hi int) { of(c, 0, n, lo, hi, mean, variance) })
	}
	means, variances := newParts[T](threads, ch), newParts[T](threads, ch)
	all := make([]float64, threads*(2*ch+1)) // as plan.MergeMoments takes them
	parts := b.Split(n, 1, func(c *plan.Call, part, first, end int) {
		of(c, first, end, 0, ch, means[part], variances[part])
		pack(all[part*(2*ch+1):], means[part], variances[part], (end-first)*hw)
	})
	return func(c *plan.Call) {
		parts(c)
		plan.MergeMoments(all, ch, func(i int, mu, v, _ float64) { mean[i], variance[i] = T(mu), T(v) })
	}
}

// newParts are n elements for each thread.
func newParts[T any](threads, n int) [][]T {
	parts := make([][]T, threads)
	for i := range parts {
		parts[i] = make([]T, n)
	}
	return parts
}

// addParts adds all parts to the first.
func addParts(parts [][]float64) {
	for _, p := range parts[1:] {
		for i, v := range p {
			parts[0][i] += v
		}
	}
}

// shareNormPoolGrad is a bindNormPoolGrad whose threads share images: most channels' sums are those of the pooled
// outputs, so that only the second half looks at x.
func shareNormPoolGrad[T kernel.Float](b *bind.Binder[T], p pool.Shape) bind.Job {
	x, y, dy, at := b.In(0), b.In(1), b.In(2), bind.Index[int32](b.Memory, &b.Step.In[3])
	mean, invstd, weight, bias := b.In(4), b.In(5), b.In(6), b.In(7)
	dx, dw, db, add := normOut(b)
	total, _ := b.Out(3)
	rounded, shares := b.Rounded(1), poolParts(b, p)
	in, out, count := p.C*p.H*p.W, p.C*p.OutH()*p.OutW(), float64(p.N*p.H*p.W)
	sums, dots, totals := newParts[float64](len(shares), p.C), newParts[float64](len(shares), p.C), newParts[float64](len(shares), p.C)
	first := b.Split(p.N, 1, func(c *plan.Call, part, lo, _ int) {
		norm.BatchNormReLUPoolGradSums(&shares[part], x(c)[lo*in:], y(c)[lo*out:], dy(c)[lo*out:], rounded, at[lo*out:], mean(c), invstd(c), weight(c), bias(c), sums[part], dots[part])
	})
	second := b.Split(p.N, 1, func(c *plan.Call, part, lo, _ int) {
		norm.BatchNormReLUPoolGradInput(&shares[part], count, x(c)[lo*in:], y(c)[lo*out:], dy(c)[lo*out:], rounded, at[lo*out:], mean(c), invstd(c), weight(c), dx[lo*in:], sums[0], dots[0], totals[part])
	})
	return func(c *plan.Call) {
		first(c)
		addParts(sums)
		addParts(dots)
		norm.BatchNormGradAffine(0, p.C, sums[0], dots[0], invstd(c), dw, db, add(c))
		second(c)
		addParts(totals)
		for i := range total {
			total[i] = T(totals[0][i])
		}
	}
}
