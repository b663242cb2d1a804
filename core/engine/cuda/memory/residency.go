package memory

import (
	"cmp"
	"fmt"
	"slices"
	"unsafe"

	"github.com/trainctl/trainctl/core/engine/cuda/driver"
	"github.com/trainctl/trainctl/core/engine/cuda/gpu"
	"github.com/trainctl/trainctl/core/engine/cuda/kernels"
	"github.com/trainctl/trainctl/core/tensor"
)

// Residency is what of the host's memory has a copy on the device, which is
// then what counts; [plan.Resident] says what holds of it.
type Residency struct {
	g       *gpu.GPU
	spans   []*span               // by address
	shared  map[*byte]*sharedCopy // copies for programs over memory that is not resident
	room    *room                 // the largest so far
	scaling driver.Args

	prefetch prefetcher

	copies               map[copyKey]*WorkingCopy
	copiesChanged        int
	copiedFrom, copiedTo driver.DevicePtr // where the weights lie that have copies
}

// New is for one device.
func New(g *gpu.GPU) *Residency {
	return &Residency{g: g, shared: map[*byte]*sharedCopy{}, copies: map[copyKey]*WorkingCopy{}}
}

// Close releases the memory of prefetching.
func (r *Residency) Close() error { return r.prefetch.close(r.g) }

// span is a piece of resident memory of the host.
type span struct {
	host uintptr
	size int
	at   driver.DevicePtr
}

// Mirror implements [plan.Resident]. Whole pages, as shared memory is, are
// pinned, so that copies run beside kernels.
func (r *Residency) Mirror(mem []byte) (release func() error, note string, err error) {
	if len(mem) == 0 {
		return func() error { return nil }, "", nil
	}
	defer r.g.Enter()()
	at, err := r.g.Alloc(len(mem), "weights, gradients or the optimizer's state")
	if err != nil {
		return nil, "", err
	}
	return r.mirror(mem, at, func() error { return r.g.CU.MemFree(at) })
}

// mirror registers device memory, which free releases, as the copy of the host's.
func (r *Residency) mirror(mem []byte, to driver.DevicePtr, free func() error) (release func() error, note string, err error) {
	s := &span{host: addressOf(mem), size: len(mem), at: to}
	unpin, note := r.g.Pin(mem)
	at, _ := slices.BinarySearchFunc(r.spans, s.host, func(s *span, host uintptr) int { return cmp.Compare(s.host, host) })
	r.spans = slices.Insert(r.spans, at, s)
	release = func() error {
		if r.g.Lost() != nil {
			return nil
		}
		defer r.g.Enter()()
		r.spans = slices.DeleteFunc(r.spans, func(o *span) bool { return o == s })
		return cmp.Or(unpin(), free())
	}
	if err := r.Upload(mem); err != nil {
		return nil, "", cmp.Or(err, release())
	}
	return release, note, nil
}

func addressOf(mem []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(mem))) }

// CopyOf is the address of the device's copy of a part of mirrored memory.
func (r *Residency) CopyOf(part []byte) (driver.DevicePtr, bool) {
	host := addressOf(part)
	i, found := slices.BinarySearchFunc(r.spans, host, func(s *span, host uintptr) int { return cmp.Compare(s.host, host) })
	if !found {
		i--
	}
	if i < 0 || len(part) == 0 {
		return 0, false
	}
	s := r.spans[i]
	if host+uintptr(len(part)) > s.host+uintptr(s.size) {
		return 0, false
	}
	return s.at + driver.DevicePtr(host-s.host), true
}

// MustCopyOf is CopyOf for callers that have mirrored the memory.
func (r *Residency) MustCopyOf(part []byte) driver.DevicePtr {
	at, ok := r.CopyOf(part)
	if !ok {
		panic(fmt.Sprintf("cuda: %d bytes that were never mirrored", len(part)))
	}
	return at
}

// Upload implements [plan.Resident].
func (r *Residency) Upload(parts ...[]byte) error {
	return r.copyAll(gpu.Doing("a copy of the host's memory to the GPU"), parts, func(p []byte) error {
		at := r.MustCopyOf(p)
		r.written(at, len(p))
		return r.g.Put(at, p)
	})
}

// Download implements [plan.Resident].
func (r *Residency) Download(parts ...[]byte) error {
	return r.copyAll(gpu.Doing("a copy of the GPU's memory to the host"), parts, func(p []byte) error {
		return r.g.Get(p, r.MustCopyOf(p))
	})
}

// copyAll first waits for the stream, with a deadline: a copy of memory that is not pinned
// waits by itself, without one.
func (r *Residency) copyAll(why gpu.Activity, parts [][]byte, one func(part []byte) error) error {
	return r.g.Within(func() error {
		if err := r.g.Finish(gpu.Doing("what was enqueued")); err != nil {
			return err
		}
		for _, p := range parts {
			if len(p) == 0 {
				continue
			}
			if err := one(p); err != nil {
				return r.g.Check(err, why)
			}
		}
		return r.g.Finish(why)
	})
}

// Clear implements [plan.Resident].
func (r *Residency) Clear(part []byte) error {
	if len(part) == 0 {
		return nil
	}
	return r.g.Within(func() error {
		at := r.MustCopyOf(part)
		r.written(at, len(part))
		return r.g.Check(r.g.CU.MemsetD8Async(at, 0, uintptr(len(part)), r.g.Stream), gpu.Doing("clearing a gradient"))
	})
}

// Scale implements [plan.Resident].
func (r *Residency) Scale(t tensor.Tensor, f float64) error {
	if len(t.Data) == 0 {
		return nil
	}
	if err := r.g.Lost(); err != nil {
		return err
	}
	defer r.g.Enter()()
	n, a := t.Shape.Elems(), &r.scaling
	at := r.MustCopyOf(t.Data)
	r.written(at, len(t.Data))
	a.Reset()
	a.Ptr(at)
	a.F64(f)
	a.I32(int32(n))
	return r.g.Launch(t.DType, "scale", max(1, min((n+r.g.Block-1)/r.g.Block, kernels.MostBlocks)), a.Pointer())
}
