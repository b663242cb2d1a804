package cuda

import (
	"fmt"
	"math"
	"unsafe"

	"github.com/trainctl/trainctl/core/cuda/driver"
	"github.com/trainctl/trainctl/core/plan"
	"github.com/trainctl/trainctl/core/tensor"
)

// partElems is how much of a parameter one block updates.
const partElems = 16 << 10

// The structs of update.cu.
type (
	slotEntry struct {
		value, weight, grad                        driver.DevicePtr
		state                                      [3]driver.DevicePtr
		valueType, weightType, gradType, stateType int32
		n, _                                       uint32
	}
	partEntry    struct{ slot, from, to, _ uint32 }
	numbersEntry struct {
		scale, lr, momentum, keep, decay, shrink, w1, w2, b1, b2, stepSize, rootScale, eps float64
		idle, first                                                                        int32
	}
)

// updater implements [plan.Updater] by one kernel over the parts of all slots.
type updater struct {
	dev     *Device
	rule    plan.Rule
	wide    tensor.DType // whose kernels compute: F32 or F64
	numbers []numbersEntry
	sums    []float64 // by part
	n       int       // parts

	slotsAt, partsAt, numbersAt, sumsAt driver.DevicePtr
}

// Updater implements [plan.Resident].
func (d *Device) Updater(rule plan.Rule, slots []plan.Slot) (_ plan.Updater, err error) {
	defer d.enter()()
	u := &updater{dev: d, rule: rule, wide: tensor.F32, numbers: make([]numbersEntry, len(slots))}
	entries, parts := make([]slotEntry, len(slots)), []partEntry(nil)
	for i, s := range slots {
		if s.Weight.DType == tensor.F64 {
			u.wide = tensor.F64
		}
		entries[i] = d.slotEntry(s)
		for n := uint32(s.Value.Shape.Elems()); entries[i].n < n; {
			from := entries[i].n
			entries[i].n = min(n, from+partElems)
			parts = append(parts, partEntry{slot: uint32(i), from: from, to: entries[i].n})
		}
	}
	u.n, u.sums = len(parts), make([]float64, len(parts))
	for _, a := range []struct {
		at   *driver.DevicePtr
		size int
	}{{&u.slotsAt, sizeOf(entries)}, {&u.partsAt, sizeOf(parts)}, {&u.numbersAt, sizeOf(u.numbers)}, {&u.sumsAt, 8 * u.n}} {
		if *a.at, err = d.alloc(a.size); err != nil {
			return nil, joinFree(fmt.Errorf("cuda: the optimizer's tables: %w", err), u.Close())
		}
	}
	if err := joinFree(d.put(u.slotsAt, bytesOf(entries)), d.put(u.partsAt, bytesOf(parts))); err != nil {
		return nil, joinFree(err, u.Close())
	}
	return u, nil
}

func (d *Device) slotEntry(s plan.Slot) slotEntry {
	e := slotEntry{
		value: d.mustCopyOf(s.Value.Data), weight: d.mustCopyOf(s.Weight.Data), grad: d.mustCopyOf(s.Grad.Data),
		valueType: code(s.Value.DType), weightType: code(s.Weight.DType), gradType: code(s.Grad.DType),
	}
	for k, t := range s.State {
		e.state[k], e.stateType = d.mustCopyOf(t.Data), code(t.DType)
	}
	return e
}

// put enqueues a copy of host memory that is not pinned: it is read before the call returns.
func (d *Device) put(at driver.DevicePtr, b []byte) error {
	if len(b) == 0 {
		return nil
	}
	return d.cu.MemcpyHtoDAsync(at, unsafe.Pointer(unsafe.SliceData(b)), uintptr(len(b)), d.stream)
}

// SquareSum implements [plan.Updater].
func (u *updater) SquareSum() (total float64, err error) {
	if u.n == 0 {
		return 0, nil
	}
	d := u.dev
	defer d.enter()()
	if err := d.run(u.wide, "square_sums", u.n, u.slotsAt, u.partsAt, u.sumsAt); err != nil {
		return 0, fmt.Errorf("cuda: the gradients' norm: %w", err)
	}
	b := bytesOf(u.sums)
	err = joinFree(d.cu.MemcpyDtoHAsync(unsafe.Pointer(unsafe.SliceData(b)), u.sumsAt, uintptr(len(b)), d.stream), d.cu.StreamSynchronize(d.stream))
	for _, s := range u.sums {
		total += s
	}
	if err != nil {
		return 0, fmt.Errorf("cuda: the gradients' norm: %w", err)
	}
	return total, nil
}

// Step implements [plan.Updater].
func (u *updater) Step(lr, scale float64, steps []int64) error {
	if u.n == 0 {
		return nil
	}
	for i, step := range steps {
		u.numbers[i] = numbersOf(u.rule, lr, scale, step)
	}
	d := u.dev
	defer d.enter()()
	err := d.put(u.numbersAt, bytesOf(u.numbers))
	if err == nil && u.rule.Adam {
		err = d.run(u.wide, "adam_update", u.n, u.slotsAt, u.partsAt, u.numbersAt, truth(u.rule.Maximize))
	} else if err == nil {
		err = d.run(u.wide, "sgd_update", u.n, u.slotsAt, u.partsAt, u.numbersAt, truth(u.rule.Nesterov), truth(u.rule.Maximize))
	}
	if err != nil {
		return fmt.Errorf("cuda: the optimizer's step: %w", err)
	}
	return nil
}

// numbersOf are the factors of one step; for Adam those of core/kernel's AdamUpdate.
func numbersOf(r plan.Rule, lr, scale float64, step int64) numbersEntry {
	n := numbersEntry{
		scale: scale, lr: lr, momentum: r.Momentum, keep: 1 - r.Dampening, decay: r.WeightDecay, shrink: 1,
		idle: truth(step == 0), first: truth(step == 1),
	}
	if !r.Adam || step == 0 {
		return n
	}
	n.w1, n.w2, n.b1, n.b2, n.eps = 1-r.Beta1, 1-r.Beta2, 1-(1-r.Beta1), r.Beta2, r.Eps
	n.stepSize = lr / (1 - math.Pow(r.Beta1, float64(step)))
	n.rootScale = math.Sqrt(1 - math.Pow(r.Beta2, float64(step)))
	if r.Decoupled {
		n.decay, n.shrink = 0, 1-lr*r.WeightDecay
	}
	return n
}

// Close implements [plan.Updater].
func (u *updater) Close() (err error) {
	defer u.dev.enter()()
	for _, p := range []driver.DevicePtr{u.slotsAt, u.partsAt, u.numbersAt, u.sumsAt} {
		if p != 0 {
			err = joinFree(err, u.dev.cu.MemFree(p))
		}
	}
	u.n = 0
	return err
}

func truth(b bool) int32 {
	if b {
		return 1
	}
	return 0
}

func sizeOf[T any](s []T) int { return len(s) * int(unsafe.Sizeof(*new(T))) }

func bytesOf[T any](s []T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), sizeOf(s))
}
