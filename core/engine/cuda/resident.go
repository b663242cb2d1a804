package cuda

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"unsafe"

	"github.com/trainctl/trainctl/core/engine/cuda/driver"
	"github.com/trainctl/trainctl/core/engine/plan"
	"github.com/trainctl/trainctl/core/tensor"
)

// span is mirrored host memory.
type span struct {
	host uintptr
	size int
	at   driver.DevicePtr
}

// Mirror implements [plan.Resident]. Whole pages, as shared memory is, are
// pinned, so that copies run beside kernels.
func (d *Device) Mirror(mem []byte) (release func() error, note string, err error) {
	if len(mem) == 0 {
		return func() error { return nil }, "", nil
	}
	defer d.enter()()
	at, err := d.alloc(len(mem), "weights, gradients or the optimizer's state")
	if err != nil {
		return nil, "", err
	}
	return d.mirror(mem, at, func() error { return d.cu.MemFree(at) })
}

// mirror makes memory of the device, which free gives back, the copy of the host's.
func (d *Device) mirror(mem []byte, to driver.DevicePtr, free func() error) (release func() error, note string, err error) {
	s := &span{host: addressOf(mem), size: len(mem), at: to}
	unpin, note := d.pin(mem)
	at, _ := slices.BinarySearchFunc(d.spans, s.host, func(s *span, host uintptr) int { return cmp.Compare(s.host, host) })
	d.spans = slices.Insert(d.spans, at, s)
	release = func() error {
		if d.gone() != nil {
			return nil
		}
		defer d.enter()()
		d.spans = slices.DeleteFunc(d.spans, func(o *span) bool { return o == s })
		return joinFree(unpin(), free())
	}
	if err := d.Upload(mem); err != nil {
		return nil, "", joinFree(err, release())
	}
	return release, note, nil
}

// pin keeps pages in memory, where a copy engine can read them. Only whole
// ones: the rest of the Go heap's pages is not ours.
func (d *Device) pin(mem []byte) (unpin func() error, note string) {
	at := unsafe.Pointer(unsafe.SliceData(mem))
	if uintptr(at)%uintptr(os.Getpagesize()) != 0 {
		return func() error { return nil }, ""
	}
	if err := d.cu.MemHostRegister(at, uintptr(len(mem)), driver.HostPortable); err != nil {
		return func() error { return nil }, fmt.Sprintf("%d bytes of shared memory cannot be pinned, so copies to and from the GPU are slow: %v", len(mem), err)
	}
	return func() error { return d.cu.MemHostUnregister(at) }, ""
}

func addressOf(mem []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(mem))) }

// copyOf is where the device's copy of a part of mirrored memory lies.
func (d *Device) copyOf(part []byte) (driver.DevicePtr, bool) {
	host := addressOf(part)
	i, found := slices.BinarySearchFunc(d.spans, host, func(s *span, host uintptr) int { return cmp.Compare(s.host, host) })
	if !found {
		i--
	}
	if i < 0 || len(part) == 0 {
		return 0, false
	}
	s := d.spans[i]
	if host+uintptr(len(part)) > s.host+uintptr(s.size) {
		return 0, false
	}
	return s.at + driver.DevicePtr(host-s.host), true
}

// mustCopyOf is copyOf for callers that have mirrored the memory.
func (d *Device) mustCopyOf(part []byte) driver.DevicePtr {
	at, ok := d.copyOf(part)
	if !ok {
		panic(fmt.Sprintf("cuda: %d bytes that were never mirrored", len(part)))
	}
	return at
}

// Upload implements [plan.Resident].
func (d *Device) Upload(parts ...[]byte) error {
	return d.copyAll(to("a copy of the host's memory to the GPU"), parts, func(p []byte) error {
		return d.cu.MemcpyHtoDAsync(d.mustCopyOf(p), unsafe.Pointer(unsafe.SliceData(p)), uintptr(len(p)), d.stream)
	})
}

// Download implements [plan.Resident].
func (d *Device) Download(parts ...[]byte) error {
	return d.copyAll(to("a copy of the GPU's memory to the host"), parts, func(p []byte) error {
		return d.cu.MemcpyDtoHAsync(unsafe.Pointer(unsafe.SliceData(p)), d.mustCopyOf(p), uintptr(len(p)), d.stream)
	})
}

// copyAll waits before, too: copies of memory that is not pinned would wait by
// themselves, without an end.
func (d *Device) copyAll(why purpose, parts [][]byte, one func(part []byte) error) error {
	return d.within(func() error {
		if err := d.finish(to("what was enqueued")); err != nil {
			return err
		}
		for _, p := range parts {
			if len(p) == 0 {
				continue
			}
			if err := one(p); err != nil {
				return d.told(err, why)
			}
		}
		return d.finish(why)
	})
}

// Clear implements [plan.Resident].
func (d *Device) Clear(part []byte) error {
	if len(part) == 0 {
		return nil
	}
	return d.within(func() error {
		return d.told(d.cu.MemsetD8Async(d.mustCopyOf(part), 0, uintptr(len(part)), d.stream), to("clearing a gradient"))
	})
}

// Scale implements [plan.Resident].
func (d *Device) Scale(t tensor.Tensor, f float64) error {
	if len(t.Data) == 0 {
		return nil
	}
	if err := d.gone(); err != nil {
		return err
	}
	defer d.enter()()
	n, a := t.Shape.Elems(), &d.scaling
	a.Reset()
	a.Ptr(d.mustCopyOf(t.Data))
	a.F64(f)
	a.I32(int32(n))
	return d.run(t.DType, "scale", max(1, min((n+d.block-1)/d.block, most)), a.Pointer())
}

// run enqueues one kernel by itself.
func (d *Device) run(t tensor.DType, name string, blocks int, params *unsafe.Pointer) error {
	f, err := d.function(t, name)
	if err != nil {
		return d.told(err, to(name))
	}
	if err := d.cu.LaunchKernel(f, uint32(blocks), 1, 1, uint32(d.block), 1, 1, 0, d.stream, params, nil); err != nil {
		return d.told(err, to(name))
	}
	return nil
}

var _ plan.Resident = (*Device)(nil)
