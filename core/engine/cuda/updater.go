package cuda

import (
	"math"
	"runtime"
	"slices"
	"unsafe"

	"github.com/trainctl/trainctl/core/engine/cuda/driver"
	"github.com/trainctl/trainctl/core/engine/plan"
	"github.com/trainctl/trainctl/core/tensor"
)

// A block updates this many elements of a parameter at most: fewer while there
// are too few blocks to keep a GPU busy, but enough for its threads to have some each.
const (
	mostPerPart  = 16 << 10
	leastPerPart = 1 << 10
)

// perPart is how many of n elements in all one block updates.
func perPart(n int) uint32 {
	return uint32(min(max(n/most, leastPerPart), mostPerPart))
}

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
	wide    tensor.DType   // whose kernels compute: F32 or F64
	numbers []numbersEntry // by slot, pinned
	copied  driver.Event   // numbers were read
	sums    []float64      // by part, pinned: kernels write it
	n       int            // parts

	slotsAt, partsAt, numbersAt driver.DevicePtr
	numbersIn, sumsIn           pinned

	// The parameters of update.cu's kernels.
	common             numbersEntry
	own                driver.DevicePtr // numbersAt where slots differ
	nesterov, maximize int32
	sgd                [6]unsafe.Pointer
	adam               [5]unsafe.Pointer
	squares            [3]unsafe.Pointer
}

// updates are the optimizers that update.cu computes.
var updates = []string{"sgd", "adam", "adamw"}

// Updater implements [plan.Resident].
func (d *Device) Updater(rule plan.Rule, slots []plan.Slot) (_ plan.Updater, err error) {
	if !slices.Contains(updates, rule.Name) {
		return nil, &plan.NoRuleError{Device: "cuda", Rule: rule.Name, Has: updates}
	}
	defer d.enter()()
	u := &updater{dev: d, rule: rule, wide: tensor.F32, nesterov: truth(rule.Nesterov), maximize: truth(rule.Maximize)}
	entries, parts, total := make([]slotEntry, len(slots)), []partEntry(nil), 0
	for _, s := range slots {
		total += s.Value.Shape.Elems()
	}
	for i, s := range slots {
		if s.Weight.DType == tensor.F64 {
			u.wide = tensor.F64
		}
		entries[i] = d.slotEntry(s)
		for n := uint32(s.Value.Shape.Elems()); entries[i].n < n; {
			from := entries[i].n
			entries[i].n = min(n, from+perPart(total))
			parts = append(parts, partEntry{slot: uint32(i), from: from, to: entries[i].n})
		}
	}
	u.n = len(parts)
	if err := u.room(entries, parts); err != nil {
		return nil, joinFree(err, u.Close())
	}
	return u, nil
}

// room allocates the tables and fills those that stay as they are.
func (u *updater) room(entries []slotEntry, parts []partEntry) (err error) {
	d, slots := u.dev, len(entries)
	for _, a := range []struct {
		at   *driver.DevicePtr
		size int
	}{{&u.slotsAt, sizeOf(entries)}, {&u.partsAt, sizeOf(parts)}, {&u.numbersAt, slots * int(unsafe.Sizeof(u.common))}} {
		if *a.at, err = d.alloc(a.size, "the optimizer's tables"); err != nil {
			return err
		}
	}
	if u.numbersIn, err = d.allocPinned(slots * int(unsafe.Sizeof(u.common))); err != nil {
		return err
	}
	if u.sumsIn, err = d.allocPinned(8 * u.n); err != nil {
		return err
	}
	u.numbers, u.sums = unsafe.Slice((*numbersEntry)(u.numbersIn.host), slots), unsafe.Slice((*float64)(u.sumsIn.host), u.n)
	p := unsafe.Pointer(&u.slotsAt)
	u.sgd = [6]unsafe.Pointer{p, unsafe.Pointer(&u.partsAt), unsafe.Pointer(&u.common), unsafe.Pointer(&u.own), unsafe.Pointer(&u.nesterov), unsafe.Pointer(&u.maximize)}
	u.adam = [5]unsafe.Pointer{p, unsafe.Pointer(&u.partsAt), unsafe.Pointer(&u.common), unsafe.Pointer(&u.own), unsafe.Pointer(&u.maximize)}
	u.squares = [3]unsafe.Pointer{p, unsafe.Pointer(&u.partsAt), unsafe.Pointer(&u.sumsIn.at)}
	err = d.cu.EventCreate(&u.copied, driver.EventDisableTiming)
	if err = joinFree(err, joinFree(d.put(u.slotsAt, bytesOf(entries)), d.put(u.partsAt, bytesOf(parts)))); err != nil {
		return d.told(err, to("the optimizer's tables"))
	}
	err = d.finish(to("the optimizer's tables")) // they are not pinned: a driver may read them until then
	runtime.KeepAlive(entries)
	runtime.KeepAlive(parts)
	return err
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

// put enqueues a copy of host memory, which stays as it is until the stream has come so far.
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
	if err := d.gone(); err != nil {
		return 0, err
	}
	defer d.enter()()
	if err := d.run(u.wide, "square_sums", u.n, &u.squares[0]); err != nil {
		return 0, err
	}
	if err := d.finish(to("the gradients' norm")); err != nil {
		return 0, err
	}
	for _, s := range u.sums {
		total += s
	}
	return total, nil
}

// Step implements [plan.Updater]. As a rule all slots have the same numbers,
// which then travel with the launch.
func (u *updater) Step(lr, scale float64, steps []int64) error {
	if u.n == 0 {
		return nil
	}
	d := u.dev
	if err := d.gone(); err != nil {
		return err
	}
	defer d.enter()()
	u.own, u.common = 0, numbersOf(u.rule, lr, scale, steps[0])
	for _, step := range steps {
		if step != steps[0] {
			u.own = u.numbersAt
		}
	}
	if u.own != 0 {
		if err := u.tell(lr, scale, steps); err != nil {
			return d.told(err, to("the optimizer's step"))
		}
	}
	if u.rule.Name == "sgd" {
		return d.run(u.wide, "sgd_update", u.n, &u.sgd[0])
	}
	return d.run(u.wide, "adam_update", u.n, &u.adam[0])
}

// tell gives every slot numbers of its own.
func (u *updater) tell(lr, scale float64, steps []int64) error {
	d := u.dev
	if err := d.await(d.stream, u.copied, to("the optimizer's step before")); err != nil {
		return err
	}
	for i, step := range steps {
		u.numbers[i] = numbersOf(u.rule, lr, scale, step)
	}
	return joinFree(d.put(u.numbersAt, bytesOf(u.numbers)), d.cu.EventRecord(u.copied, d.stream))
}

// numbersOf are the factors of one step; for Adam those of core/engine/kernel's AdamUpdate.
func numbersOf(r plan.Rule, lr, scale float64, step int64) numbersEntry {
	n := numbersEntry{
		scale: scale, lr: lr, momentum: r.Momentum, keep: 1 - r.Dampening, decay: r.WeightDecay, shrink: 1,
		idle: truth(step == 0), first: truth(step == 1),
	}
	if r.Name == "sgd" || step == 0 {
		return n
	}
	n.w1, n.w2, n.b1, n.b2, n.eps = 1-r.Beta1, 1-r.Beta2, 1-(1-r.Beta1), r.Beta2, r.Eps
	n.stepSize = lr / (1 - math.Pow(r.Beta1, float64(step)))
	n.rootScale = math.Sqrt(1 - math.Pow(r.Beta2, float64(step)))
	if r.Name == "adamw" {
		n.decay, n.shrink = 0, 1-lr*r.WeightDecay
	}
	return n
}

// Close implements [plan.Updater].
func (u *updater) Close() (err error) {
	d := u.dev
	if d.gone() != nil {
		return nil
	}
	defer d.enter()()
	for _, p := range []driver.DevicePtr{u.slotsAt, u.partsAt, u.numbersAt} {
		if p != 0 {
			err = joinFree(err, d.cu.MemFree(p))
		}
	}
	err = joinFree(err, joinFree(d.freePinned(u.numbersIn), d.freePinned(u.sumsIn)))
	if u.copied != 0 {
		err = joinFree(err, d.cu.EventDestroy(u.copied))
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
