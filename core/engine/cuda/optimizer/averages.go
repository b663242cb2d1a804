package optimizer

import (
	"unsafe"

	"github.com/trainctl/trainctl/core/engine/cuda/driver"
	"github.com/trainctl/trainctl/core/engine/cuda/gpu"
	"github.com/trainctl/trainctl/core/engine/cuda/kernels"
	"github.com/trainctl/trainctl/core/engine/cuda/memory"
	"github.com/trainctl/trainctl/core/engine/plan"
)

// averages are the moving averages of weights, which have kernels of their own.
type averages struct {
	asideAt   driver.DevicePtr // half values, while their averages are in use
	exchanged int32            // 1 while averages are in use

	// The parameters of update.cu's kernels.
	weight   float64 // of the new value
	first    int32
	move     [4]unsafe.Pointer
	exchange [3]unsafe.Pointer
}

// averageOf gives an entry its slot's average.
func averageOf(e *slotEntry, r *memory.Residency, s plan.Slot) {
	if s.Average.Data != nil {
		e.average, e.averageType = r.MustCopyOf(s.Average.Data), kernels.Code(s.Average.DType)
	}
}

// allocate makes room for the half values that have an average.
func (a *averages) allocate(g *gpu.GPU, entries []slotEntry, slots []plan.Slot) (err error) {
	const align = 256
	size, offsets := 0, make([]int, len(entries))
	for i, s := range slots {
		offsets[i] = -1
		if s.Average.Data != nil && s.Value.DType.Half() {
			offsets[i] = size
			size += (len(s.Value.Data) + align - 1) / align * align
		}
	}
	if size == 0 {
		return nil
	}
	if a.asideAt, err = g.Alloc(size, "weights behind their averages"); err != nil {
		return err
	}
	for i, at := range offsets {
		if at >= 0 {
			entries[i].aside = a.asideAt + driver.DevicePtr(at)
		}
	}
	return nil
}

// Average implements [plan.Updater].
func (u *updater) Average(decay float64, first bool) error {
	a := &u.averages
	a.weight, a.first = 1-decay, truth(first)
	return u.overParts("average_update", &a.move[0])
}

// ExchangeAverages implements [plan.Updater].
func (u *updater) ExchangeAverages() error {
	a := &u.averages
	if err := u.overParts("average_exchange", &a.exchange[0]); err != nil {
		return err
	}
	a.exchanged = 1 - a.exchanged
	u.copies.written(nil)
	return nil
}

// overParts runs a kernel with a block for each part.
func (u *updater) overParts(kernel string, params *unsafe.Pointer) error {
	if g := u.g; u.n == 0 || g.Lost() != nil {
		return g.Lost()
	}
	defer u.g.Enter()()
	if err := u.copies.update(u.g, u.slotsAt); err != nil {
		return err
	}
	return u.g.Launch(u.wide, kernel, u.n, params)
}
