package optimizer

import (
	"cmp"
	"math"
	"runtime"
	"slices"
	"unsafe"

	"github.com/trainctl/trainctl/core/engine/cuda/driver"
	"github.com/trainctl/trainctl/core/engine/cuda/gpu"
	"github.com/trainctl/trainctl/core/engine/cuda/kernels"
	"github.com/trainctl/trainctl/core/engine/cuda/memory"
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
	return uint32(min(max(n/kernels.MostBlocks, leastPerPart), mostPerPart))
}

// The structs of update.cu.
type (
	slotEntry struct {
		value, weight, grad                        driver.DevicePtr
		state                                      [3]driver.DevicePtr
		copy, average, aside                       driver.DevicePtr
		valueType, weightType, gradType, stateType int32
		n                                          uint32
		copyType                                   int32
		firstPart, parts                           uint32
		averageType, _                             int32
	}
	partEntry    struct{ slot, from, to, _ uint32 }
	numbersEntry struct {
		scale, lr, momentum, keep, decay, shrink, w1, w2, b1, b2, stepSize, rootScale, eps, trust float64
		idle, first                                                                               int32
	}
)

// updater implements [plan.Updater] by one kernel over the parts of all slots.
type updater struct {
	g       *gpu.GPU
	rules   []slotRule     // by slot
	wide    tensor.DType   // whose kernels compute: F32 or F64
	numbers []numbersEntry // by slot, pinned
	copied  driver.Event   // numbers were read
	sums    []float64      // by part, pinned: kernels write it
	n       int            // parts

	copies   copies
	averages averages

	slotsAt, partsAt, numbersAt driver.DevicePtr
	pairsAt, ratiosAt           driver.DevicePtr // with LARS: by part the sums of squares of weights and gradients, by slot the ratio
	numbersIn, sumsIn           gpu.Pinned

	// The parameters of update.cu's kernels.
	common             numbersEntry
	own                driver.DevicePtr // numbersAt where slots differ
	nesterov, maximize int32
	sgd                [7]unsafe.Pointer
	adam               [5]unsafe.Pointer // and RMSprop
	squares, pairs     [3]unsafe.Pointer
	trust              [5]unsafe.Pointer
}

// slotRule is the rule of one slot, and the factor of its learning rate.
type slotRule struct {
	plan.Rule
	lrScale float64
}

// updates are the optimizers that update.cu computes.
var updates = []string{"sgd", "adam", "adamw", "lars", "rmsprop"}

// New is [plan.Resident]'s Updater: it computes over tensors that are resident.
func New(g *gpu.GPU, r *memory.Residency, rule plan.Rule, slots []plan.Slot) (_ plan.Updater, err error) {
	if !slices.Contains(updates, rule.Name) {
		return nil, &plan.NoRuleError{Device: "cuda", Rule: rule.Name, Has: updates}
	}
	defer g.Enter()()
	u := &updater{g: g, copies: copies{r: r}, rules: make([]slotRule, len(slots)), wide: tensor.F32, nesterov: truth(rule.Nesterov), maximize: truth(rule.Maximize)}
	entries, parts, total := make([]slotEntry, len(slots)), []partEntry(nil), 0
	for _, s := range slots {
		total += s.Value.Shape.Elems()
	}
	for i, s := range slots {
		if u.rules[i] = (slotRule{rule, 1}); s.Rule != nil {
			u.rules[i] = slotRule{*s.Rule, s.LRScale}
		}
		if s.Weight.DType == tensor.F64 {
			u.wide = tensor.F64
		}
		entries[i] = entryOf(r, s)
		entries[i].firstPart = uint32(len(parts))
		for n := uint32(s.Value.Shape.Elems()); entries[i].n < n; {
			from := entries[i].n
			entries[i].n = min(n, from+perPart(total))
			parts = append(parts, partEntry{slot: uint32(i), from: from, to: entries[i].n})
		}
		entries[i].parts = uint32(len(parts)) - entries[i].firstPart
	}
	u.n, u.copies.entries = len(parts), entries
	if err = u.averages.allocate(g, entries, slots); err == nil {
		err = u.room(entries, parts)
	}
	if err != nil {
		return nil, cmp.Or(err, u.Close())
	}
	return u, nil
}

// room allocates the tables and fills those that stay as they are.
func (u *updater) room(entries []slotEntry, parts []partEntry) (err error) {
	g, slots := u.g, len(entries)
	type table struct {
		at   *driver.DevicePtr
		size int
	}
	tables := []table{{&u.slotsAt, sizeOf(entries)}, {&u.partsAt, sizeOf(parts)}, {&u.numbersAt, slots * int(unsafe.Sizeof(u.common))}}
	if u.lars() {
		tables = append(tables, table{&u.pairsAt, 16 * u.n}, table{&u.ratiosAt, 8 * slots})
	}
	for _, a := range tables {
		if *a.at, err = g.Alloc(a.size, "the optimizer's tables"); err != nil {
			return err
		}
	}
	if u.numbersIn, err = g.AllocPinned(slots * int(unsafe.Sizeof(u.common))); err != nil {
		return err
	}
	if u.sumsIn, err = g.AllocPinned(8 * u.n); err != nil {
		return err
	}
	u.numbers, u.sums = unsafe.Slice((*numbersEntry)(u.numbersIn.Host), slots), unsafe.Slice((*float64)(u.sumsIn.Host), u.n)
	u.parameters()
	err = g.CU.EventCreate(&u.copied, driver.EventDisableTiming)
	if err = cmp.Or(err, cmp.Or(g.Put(u.slotsAt, bytesOf(entries)), g.Put(u.partsAt, bytesOf(parts)))); err != nil {
		return g.Check(err, gpu.Doing("the optimizer's tables"))
	}
	err = g.Finish(gpu.Doing("the optimizer's tables")) // they are not pinned: a driver may read them until then
	runtime.KeepAlive(entries)
	runtime.KeepAlive(parts)
	return err
}

// parameters fills in those of the kernels.
func (u *updater) parameters() {
	slots, parts := unsafe.Pointer(&u.slotsAt), unsafe.Pointer(&u.partsAt)
	common, own := unsafe.Pointer(&u.common), unsafe.Pointer(&u.own)
	pairs, ratios, maximize := unsafe.Pointer(&u.pairsAt), unsafe.Pointer(&u.ratiosAt), unsafe.Pointer(&u.maximize)
	u.sgd = [7]unsafe.Pointer{slots, parts, common, own, unsafe.Pointer(&u.nesterov), maximize, ratios}
	u.adam = [5]unsafe.Pointer{slots, parts, common, own, maximize}
	u.squares = [3]unsafe.Pointer{slots, parts, unsafe.Pointer(&u.sumsIn.At)}
	u.pairs = [3]unsafe.Pointer{slots, parts, pairs}
	u.trust = [5]unsafe.Pointer{slots, pairs, common, own, ratios}
	a := &u.averages
	a.move = [4]unsafe.Pointer{slots, parts, unsafe.Pointer(&a.weight), unsafe.Pointer(&a.first)}
	a.exchange = [3]unsafe.Pointer{slots, parts, unsafe.Pointer(&a.exchanged)}
}

func (u *updater) lars() bool { return len(u.rules) > 0 && u.rules[0].Name == "lars" }

func entryOf(r *memory.Residency, s plan.Slot) slotEntry {
	e := slotEntry{
		value: r.MustCopyOf(s.Value.Data), weight: r.MustCopyOf(s.Weight.Data), grad: r.MustCopyOf(s.Grad.Data),
		valueType: kernels.Code(s.Value.DType), weightType: kernels.Code(s.Weight.DType), gradType: kernels.Code(s.Grad.DType),
	}
	for k, t := range s.State {
		e.state[k], e.stateType = r.MustCopyOf(t.Data), kernels.Code(t.DType)
	}
	averageOf(&e, r, s)
	return e
}

// SquareSum implements [plan.Updater].
func (u *updater) SquareSum() (total float64, err error) {
	if u.n == 0 {
		return 0, nil
	}
	g := u.g
	if err := g.Lost(); err != nil {
		return 0, err
	}
	defer g.Enter()()
	if err := g.Launch(u.wide, "square_sums", u.n, &u.squares[0]); err != nil {
		return 0, err
	}
	if err := g.Finish(gpu.Doing("the gradients' norm")); err != nil {
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
	g := u.g
	if u.n == 0 || g.Lost() != nil {
		return g.Lost()
	}
	defer g.Enter()()
	u.own, u.common = 0, numbersOf(u.rules[0], lr, scale, steps[0])
	for i, step := range steps {
		if step != steps[0] || u.rules[i] != u.rules[0] {
			u.own = u.numbersAt
		}
	}
	if u.own != 0 {
		if err := u.tell(lr, scale, steps); err != nil {
			return g.Check(err, gpu.Doing("the optimizer's step"))
		}
	}
	if err := u.copies.update(g, u.slotsAt); err != nil {
		return err
	}
	if err := u.launch(len(steps)); err != nil {
		return err
	}
	u.copies.written(steps)
	return nil
}

// SetMomentum implements [plan.Updater].
func (u *updater) SetMomentum(m float64) {
	for i := range u.rules {
		switch r := &u.rules[i]; r.Name {
		case "adam", "adamw":
			r.Beta1 = m
		default:
			r.Momentum = m
		}
	}
}

// launch enqueues the kernels of one update of so many slots.
func (u *updater) launch(slots int) error {
	g := u.g
	switch u.rules[0].Name {
	case "sgd":
		return g.Launch(u.wide, "sgd_update", u.n, &u.sgd[0])
	case "lars":
		return cmp.Or(g.Launch(u.wide, "square_pairs", u.n, &u.pairs[0]), g.Launch(u.wide, "trust_ratios", slots, &u.trust[0]),
			g.Launch(u.wide, "sgd_update", u.n, &u.sgd[0]))
	case "rmsprop":
		return g.Launch(u.wide, "rmsprop_update", u.n, &u.adam[0])
	}
	return g.Launch(u.wide, "adam_update", u.n, &u.adam[0])
}

// tell gives every slot numbers of its own.
func (u *updater) tell(lr, scale float64, steps []int64) error {
	g := u.g
	if err := g.Await(g.Stream, u.copied, gpu.Doing("the optimizer's step before")); err != nil {
		return err
	}
	for i, step := range steps {
		u.numbers[i] = numbersOf(u.rules[i], lr, scale, step)
	}
	return cmp.Or(g.Put(u.numbersAt, bytesOf(u.numbers)), g.CU.EventRecord(u.copied, g.Stream))
}

// numbersOf are the factors of one step; for Adam those of core/engine/kernel/optimizer's AdamUpdate, for RMSprop
// those of the means.
func numbersOf(r slotRule, lr, scale float64, step int64) numbersEntry {
	lr *= r.lrScale
	n := numbersEntry{
		scale: scale, lr: lr, momentum: r.Momentum, keep: 1 - r.Dampening, decay: r.WeightDecay, shrink: 1,
		eps: r.Eps, trust: r.TrustCoefficient, idle: truth(step == 0), first: truth(step == 1),
	}
	switch {
	case r.Name == "sgd" || r.Name == "lars" || step == 0:
		return n
	case r.Name == "rmsprop":
		n.w1, n.w2, n.b1, n.b2 = 1-r.Alpha, 1-r.Alpha, 1-(1-r.Alpha), r.Alpha
		return n
	}
	n.w1, n.w2, n.b1, n.b2 = 1-r.Beta1, 1-r.Beta2, 1-(1-r.Beta1), r.Beta2
	n.stepSize = lr / (1 - math.Pow(r.Beta1, float64(step)))
	n.rootScale = math.Sqrt(1 - math.Pow(r.Beta2, float64(step)))
	if r.Name == "adamw" {
		n.decay, n.shrink = 0, 1-lr*r.WeightDecay
	}
	return n
}

// Close implements [plan.Updater].
func (u *updater) Close() (err error) {
	g := u.g
	if g.Lost() != nil {
		return nil
	}
	defer g.Enter()()
	for _, p := range []driver.DevicePtr{u.slotsAt, u.partsAt, u.numbersAt, u.pairsAt, u.ratiosAt, u.averages.asideAt} {
		if p != 0 {
			err = cmp.Or(err, g.CU.MemFree(p))
		}
	}
	err = cmp.Or(err, cmp.Or(g.FreePinned(u.numbersIn), g.FreePinned(u.sumsIn)))
	if u.copied != 0 {
		err = cmp.Or(err, g.CU.EventDestroy(u.copied))
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
