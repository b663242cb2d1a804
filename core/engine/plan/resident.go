package plan

import (
	"fmt"

	"github.com/trainctl/trainctl/core/contract"
	"github.com/trainctl/trainctl/core/tensor"
)

// Resident is implemented by devices with their own memory, in addition to Device.
//
// Mirrored host memory has a copy on the device, and the copy is authoritative:
// programs over tensors in it read and write only the copy, and the host's bytes
// are those of the last Download. Parts are slices of mirrored memory. All methods
// must be called on the goroutine that runs programs, and take effect in order
// with the runs. Waits for the device are bounded. After the device is lost, every
// call fails, and its memory is not released.
type Resident interface {
	Device

	// Mirror copies host memory to the device and keeps the copy until release.
	// Programs that use it must be bound after Mirror and closed before release.
	// note reports what slows down copying, such as memory that cannot be pinned;
	// "" if nothing does.
	Mirror(mem []byte) (release func() error, note string, err error)

	// MirrorShared is Mirror in memory that a backend can map, so that it can reduce
	// parts of the copy in place.
	MirrorShared(mem []byte) (shared Shared, note string, err error)

	// Upload copies parts from host to device, Download from device to host. Both
	// block until done. Without parts they wait for all enqueued work.
	Upload(parts ...[]byte) error
	Download(parts ...[]byte) error

	// Clear zeroes the copy of a part, and Scale multiplies the copy of a tensor by f.
	Clear(part []byte) error
	Scale(t tensor.Tensor, f float64) error

	// Updater prepares the update of an optimizer over tensors in mirrored memory.
	Updater(rule Rule, slots []Slot) (Updater, error)

	// NewStaging prepares copies of buckets, parts of mirrored memory, between
	// device and host.
	NewStaging(buckets [][]byte) (Staging, error)

	// Pin page-locks host memory until unpin, so that copies of the batches in it
	// overlap with kernels. note is as in Mirror.
	Pin(mem []byte) (unpin func() error, note string)

	// Prefetch starts to copy the batch of the next run during the current one; the
	// run finds it by its address. DropPrefetched discards batches that no run has
	// used yet; call it before the host memory changes. WaitPrefetched waits until
	// the batch of the current run has been read.
	Prefetch(input, target []byte) error
	DropPrefetched()
	WaitPrefetched() error
}

// Rule has the fields of core/engine/optim's Config, a package that this one cannot import.
type Rule struct {
	Name                string // "sgd"; a device returns a *NoRuleError for one that it does not know
	Momentum, Dampening float64
	Nesterov, Maximize  bool
	WeightDecay         float64
	Beta1, Beta2, Eps   float64
	TrustCoefficient    float64
	Alpha               float64
}

// NoRuleError reports an optimizer that a device does not implement.
type NoRuleError struct {
	Device string   // "cuda"
	Rule   string   // optimizer.name
	Has    []string // the rules that the device has, two or more
}

func (e *NoRuleError) Error() string {
	return fmt.Sprintf("the optimizer %q is not implemented on the device %q", e.Rule, e.Device)
}

// Slot is a parameter with its optimizer state.
type Slot struct {
	Value  tensor.Tensor
	Weight tensor.Tensor // what is updated: Value itself, or its F32 master copy
	Grad   tensor.Tensor
	State  []tensor.Tensor // in the order in which the optimizer's rule lists its kinds

	Average tensor.Tensor // moving average of Weight, F32 or F64; without data there is none

	Rule    *Rule   // the updater's with the settings of this parameter; nil: as it is
	LRScale float64 // with Rule: factor of the learning rate
}

// Updater is an optimizer on a device.
type Updater interface {
	// SquareSum returns the sum of squares of all gradients, added in a fixed
	// order. It is not finite if a gradient is not.
	SquareSum() (float64, error)

	// Step enqueues one update. steps has the number of updates of each slot,
	// including this one; 0 skips the slot. Gradients are multiplied by scale.
	Step(lr, scale float64, steps []int64) error

	// SetMomentum changes the momentum, or the first beta, of all slots for the next steps.
	SetMomentum(m float64)

	// Average enqueues that each slot's average moves by 1-decay towards its weight, or
	// with first becomes a copy of it.
	Average(decay float64, first bool) error

	// ExchangeAverages enqueues that values and averages take each other's place. The next
	// call exchanges them back; nothing else may write either in between.
	ExchangeAverages() error

	Close() error
}

// Staging copies gradient buckets between device memory and host memory, from
// which backends read them. Copies overlap with computing and run in the order of
// the calls.
type Staging interface {
	// Fetch starts to copy a bucket to the host, after all work enqueued so far.
	Fetch(bucket int) error

	// Fetched reports whether the last Fetch of a bucket is complete, or waits until it is.
	Fetched(bucket int, wait bool) (bool, error)

	// Store starts to copy a bucket to the device, before all work enqueued later.
	// The host's bytes must not change until the next Fetch of the bucket, or a Download.
	Store(bucket int) error

	Close() error
}

// Shared is the copy of mirrored memory that a backend maps. Offsets in the copy
// equal those in the host memory. Methods must be called on the goroutine that
// runs programs.
type Shared interface {
	// Export returns how a backend, in this process or in another, maps the copy;
	// Attached takes the answer of the backend's Attach. Both are called again for
	// every new backend, which invalidates the calls of the previous one.
	Export(inProcess bool) (*contract.DeviceMemory, error)
	Attached(m *contract.DeviceMemory) error

	// Written is called when all work that writes a part has been enqueued. It
	// returns the Ready and Done of the collective to submit for the part.
	Written() (ready, done int, err error)

	// Follow makes work enqueued from now on wait for the collective with that
	// Done. Collectives are followed in the order of Written.
	Follow(done int) error

	// Close is Mirror's release. Close the backend first.
	Close() error
}
