package optimizer

import (
	"runtime"

	"github.com/trainctl/trainctl/core/engine/cuda/driver"
	"github.com/trainctl/trainctl/core/engine/cuda/gpu"
	"github.com/trainctl/trainctl/core/engine/cuda/kernels"
	"github.com/trainctl/trainctl/core/engine/cuda/memory"
)

// copies are the half-precision copies of weights that the update writes in the
// same pass: steps that compute in a half type read them without a cast.
type copies struct {
	r       *memory.Residency
	seen    int         // r.CopiesChanged, when the table was made
	entries []slotEntry // the table as the device has it
	by      []slotCopies
}

// slotCopies are a weight's: the one that the kernel writes, and any other.
type slotCopies struct {
	written *memory.WorkingCopy
	others  []*memory.WorkingCopy
}

// update tells the kernel of the copies that there are now, if they are others than before.
func (c *copies) update(g *gpu.GPU, table driver.DevicePtr) error {
	if c.seen == c.r.CopiesChanged() {
		return nil
	}
	c.by = make([]slotCopies, len(c.entries))
	for i := range c.entries {
		e, by := &c.entries[i], &c.by[i]
		by.written, by.others = c.r.WorkingCopies(e.value)
		if e.copy, e.copyType = 0, 0; by.written != nil {
			e.copy, e.copyType = by.written.At, kernels.Code(by.written.DType)
		}
	}
	why := gpu.Doing("the optimizer's tables")
	if err := g.Put(table, bytesOf(c.entries)); err != nil {
		return g.Check(err, why)
	}
	err := g.Finish(why) // the table is not pinned: a driver may read it until then
	runtime.KeepAlive(c.entries)
	if err == nil {
		c.seen = c.r.CopiesChanged()
	}
	return err
}

// written notes which copies an update has written that was enqueued. steps are those of the slots;
// nil: all are written.
func (c *copies) written(steps []int64) {
	for i := range c.by {
		if steps != nil && steps[i] == 0 {
			continue // the slot was left alone
		}
		if c.by[i].written != nil {
			c.by[i].written.Written(true)
		}
		for _, o := range c.by[i].others {
			o.Written(false)
		}
	}
}
