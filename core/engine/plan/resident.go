package plan

import (
	"fmt"

	"github.com/trainctl/trainctl/core/contract"
	"github.com/trainctl/trainctl/core/tensor"
)

// Resident is what a device with memory of its own offers beside Device.
//
// Host memory that was mirrored has a copy on the device, and the copy is what
// counts: programs over tensors that lie in it read and write the copy alone,
// and the host's bytes are as old as the last Download. Parts are slices of
// mirrored memory. All methods belong to the goroutine that runs programs, and
// what they do stands in one order with the runs. Whatever waits for the device
// does so for a bounded time; a device that is lost fails every call, and what
// is to be freed there is left behind.
type Resident interface {
	Device

	// Mirror gives memory a copy on the device, with the host's content, until
	// release. Programs that use it are bound after and closed before. note says
	// what makes copying slower than it could be, such as memory that cannot be
	// pinned; "" for nothing.
	Mirror(mem []byte) (release func() error, note string, err error)

	// MirrorShared is Mirror in memory that a backend can map, so that it can reduce
	// parts of the copy where they lie.
	MirrorShared(mem []byte) (shared Shared, note string, err error)

	// Upload makes the copies of parts what the host has; Download the other way
	// round. Both wait. Without parts they wait for what was enqueued.
	Upload(parts ...[]byte) error
	Download(parts ...[]byte) error

	// Clear zeroes the copy of a part, and Scale multiplies that of a tensor.
	Clear(part []byte) error
	Scale(t tensor.Tensor, f float64) error

	// Updater does the arithmetic of an optimizer over tensors in mirrored memory.
	Updater(rule Rule, slots []Slot) (Updater, error)

	// Stage copies buckets, parts of mirrored memory, between device and host.
	Stage(buckets [][]byte) (Stage, error)

	// Pin keeps host memory in place until unpin, so that copies of batches in it
	// run beside kernels. note is Mirror's.
	Pin(mem []byte) (unpin func() error, note string)

	// Prefetch begins to copy the batch of the next run while one is under way; the run
	// knows it by its memory. DropPrefetched forgets what no run has got yet, before the memory has another
	// content. WaitPrefetched waits until the batch of the run under way was read.
	Prefetch(input, target []byte) error
	DropPrefetched()
	WaitPrefetched() error
}

// Rule is an optimizer in numbers: core/engine/optim's Config, which is above this package.
type Rule struct {
	Name                string // "sgd"; a device returns a *NoRuleError for one that it does not know
	Momentum, Dampening float64
	Nesterov, Maximize  bool
	WeightDecay         float64
	Beta1, Beta2, Eps   float64
}

// NoRuleError says that a device cannot compute an optimizer.
type NoRuleError struct {
	Device string   // "cuda"
	Rule   string   // optimizer.name
	Has    []string // the rules that the device has, two or more
}

func (e *NoRuleError) Error() string {
	return fmt.Sprintf("the optimizer %q is not implemented on the device %q", e.Rule, e.Device)
}

// Slot is a parameter with what an optimizer keeps of it.
type Slot struct {
	Value  tensor.Tensor
	Weight tensor.Tensor // what is updated: Value itself, or its F32 master copy
	Grad   tensor.Tensor
	State  []tensor.Tensor // momentum; or both moments, and with AMSGrad the maximum of the second
}

// Updater is an optimizer's arithmetic on a device.
type Updater interface {
	// SquareSum adds up the squares of all gradients, in an order that never
	// changes. It is not finite if a gradient is not.
	SquareSum() (float64, error)

	// Step enqueues one update. steps counts each slot's updates, this one
	// included; 0 leaves the slot alone. Gradients are read times scale.
	Step(lr, scale float64, steps []int64) error

	Close() error
}

// Stage moves gradient buckets between the memory in which a device computes
// and the host's, where backends find them. Copies of different buckets overlap
// with computing, and each other's order is that of the calls.
type Stage interface {
	// Fetch begins to copy a bucket to the host, as the work enqueued so far leaves it.
	Fetch(bucket int) error

	// Landed reports whether the last Fetch of a bucket is complete, or waits until it is.
	Landed(bucket int, wait bool) (bool, error)

	// Store begins to copy a bucket to the device. Work enqueued later comes
	// after; the host's bytes stay as they are until the next Fetch of the bucket, or a Download.
	Store(bucket int) error

	Close() error
}

// Shared is the copy of mirrored memory that a backend maps. What lies
// at an offset of the host's memory lies at the same offset of the copy. Its methods belong to
// the goroutine that runs programs.
type Shared interface {
	// Export says how a backend gets at the copy, one in this process or one in
	// another; Attached takes what the backend's Attach has answered. Both are
	// called anew for every backend, and what one before has left open is void.
	Export(inProcess bool) (*contract.DeviceMemory, error)
	Attached(m *contract.DeviceMemory) error

	// Written comes when all work that writes a part has been enqueued, and
	// returns the Ready and Done of the collective to be submitted for it.
	Written() (ready, done int, err error)

	// Follow puts work enqueued from now on behind what a call with that Done
	// has left to do. Calls are followed in the order of Written.
	Follow(done int) error

	// Close is Mirror's release. The backend has been closed before.
	Close() error
}
