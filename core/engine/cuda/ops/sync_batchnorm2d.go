package ops

import (
	"cmp"
	"unsafe"

	"github.com/trainctl/trainctl/core/engine/cuda/driver"
	"github.com/trainctl/trainctl/core/engine/cuda/gpu"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/plan"
	"github.com/trainctl/trainctl/core/tensor"
)

func init() {
	implement(op.SyncBatchNorm, bindSyncBatchNorm)
	implement(op.SyncBatchNormGrad, bindBatchNormGrad)
}

// bindSyncBatchNorm lets the host merge the ranks' moments between two kernels.
func bindSyncBatchNorm(b *binder) {
	part, v := b.moments()
	d, c, stats := b.s.In[0].Spec.DType, v.c, b.scratch(8*(2*v.c+1))
	b.launch(d, "bn_merge", c, 1, part, v.shares, c, stats)
	b.exchange(stats, func(e plan.Exchange, mine []float64) error {
		all, err := e.Gather(mine)
		if err == nil {
			plan.MergeMoments(all, c, func(ch int, mean, variance, count float64) {
				mine[ch], mine[c+ch], mine[2*c] = mean, variance, count
			})
		}
		return err
	})
	u, f := b.targets(b.s.Attr.(op.BatchNormAttr), 1)
	b.launch(d, "bn_update", grid(c), 1, stats, c, u)
	b.normApply(f, 0, 0)
}

// exchange stops the stream, brings back the step's sums, works with the other
// ranks, and returns them to the device. A rank alone goes on at once.
func (b *binder) exchange(at driver.DevicePtr, with func(e plan.Exchange, v []float64) error) {
	if b.measure {
		return
	}
	m, n := b.m, b.s.Exchanges()
	p, err := m.OwnPinned(8 * n)
	if b.err = cmp.Or(b.err, err); b.err != nil {
		return
	}
	v, why := unsafe.Slice((*float64)(p.Host), n), gpu.Doing("the statistics of "+b.s.Layer)
	b.items = append(b.items, Item{Host: func(c *plan.Call) error {
		if c.Exchange == nil {
			return nil
		}
		err := b.g.Within(func() error {
			if err := b.g.Get(tensor.Bytes(v), at); err != nil {
				return b.g.Check(err, why)
			}
			return b.g.Finish(why)
		})
		if err != nil {
			return err
		}
		if err := with(c.Exchange, v); err != nil { // outside: other ranks may be slow
			return err
		}
		return b.g.Within(func() error { return b.g.Check(b.g.Put(at, tensor.Bytes(v)), why) })
	}})
}
