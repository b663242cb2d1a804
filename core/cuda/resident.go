package cuda

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"unsafe"

	"github.com/trainctl/trainctl/core/cuda/driver"
	"github.com/trainctl/trainctl/core/plan"
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
	s := &span{host: addressOf(mem), size: len(mem)}
	if s.at, err = d.alloc(len(mem)); err != nil {
		return nil, "", fmt.Errorf("cuda: %d bytes beside the host's: %w", len(mem), err)
	}
	unpin, note := d.pin(mem)
	at, _ := slices.BinarySearchFunc(d.spans, s.host, func(s *span, host uintptr) int { return cmp.Compare(s.host, host) })
	d.spans = slices.Insert(d.spans, at, s)
	release = func() error {
		defer d.enter()()
		d.spans = slices.DeleteFunc(d.spans, func(o *span) bool { return o == s })
		return joinFree(unpin(), d.cu.MemFree(s.at))
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
	return d.copyAll("to", parts, func(p []byte) error {
		return d.cu.MemcpyHtoDAsync(d.mustCopyOf(p), unsafe.Pointer(unsafe.SliceData(p)), uintptr(len(p)), d.stream)
	})
}

// Download implements [plan.Resident].
func (d *Device) Download(parts ...[]byte) error {
	return d.copyAll("from", parts, func(p []byte) error {
		return d.cu.MemcpyDtoHAsync(unsafe.Pointer(unsafe.SliceData(p)), d.mustCopyOf(p), uintptr(len(p)), d.stream)
	})
}

func (d *Device) copyAll(way string, parts [][]byte, one func(part []byte) error) (err error) {
	defer d.enter()()
	for _, p := range parts {
		if len(p) > 0 && err == nil {
			err = one(p)
		}
	}
	if err = joinFree(err, d.cu.StreamSynchronize(d.stream)); err != nil {
		return fmt.Errorf("cuda: copying %s the device: %w", way, err)
	}
	return nil
}

// Clear implements [plan.Resident].
func (d *Device) Clear(part []byte) error {
	if len(part) == 0 {
		return nil
	}
	defer d.enter()()
	return d.cu.MemsetD8Async(d.mustCopyOf(part), 0, uintptr(len(part)), d.stream)
}

// Scale implements [plan.Resident].
func (d *Device) Scale(t tensor.Tensor, f float64) error {
	if len(t.Data) == 0 {
		return nil
	}
	defer d.enter()()
	n := t.Shape.Elems()
	return d.run(t.DType, "scale", max(1, min((n+d.block-1)/d.block, most)), d.mustCopyOf(t.Data), f, n)
}

// run enqueues one kernel by itself.
func (d *Device) run(t tensor.DType, name string, blocks int, args ...any) error {
	f, err := d.function(t, name)
	if err != nil {
		return err
	}
	params := make([]unsafe.Pointer, len(args))
	for i, a := range args {
		params[i] = param(a)
	}
	return d.cu.LaunchKernel(f, uint32(blocks), 1, 1, uint32(d.block), 1, 1, 0, d.stream, unsafe.SliceData(params), nil)
}

var _ plan.Resident = (*Device)(nil)
