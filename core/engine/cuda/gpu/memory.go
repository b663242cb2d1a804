package gpu

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"unsafe"

	"github.com/trainctl/trainctl/core/base/bytesize"
	"github.com/trainctl/trainctl/core/engine/cuda/driver"
)

// MemoryError reports that a GPU is out of memory.
type MemoryError struct {
	GPU         string
	What        string // for what
	Bytes       int    // that were asked for
	Free, Total int    // of the device; 0 where the driver did not say
	Err         error
}

func (e *MemoryError) Error() string {
	s := fmt.Sprintf("%s is out of memory for %s: %s requested", e.GPU, e.What, bytesize.Text(e.Bytes))
	if e.Total > 0 {
		s += fmt.Sprintf(", %s of %s free", bytesize.Text(e.Free), bytesize.Text(e.Total))
	}
	return s + "; lower train.per_rank_batch and raise train.accumulate_steps by the same factor, compute in half precision ([precision]), or end other processes on the GPU (nvidia-smi lists them)"
}

// Unwrap returns the driver's error.
func (e *MemoryError) Unwrap() error { return e.Err }

// Alloc allocates device memory; what describes its purpose in a *MemoryError.
func (g *GPU) Alloc(n int, what string) (p driver.DevicePtr, err error) {
	err = g.CU.MemAlloc(&p, uintptr(max(n, 1)))
	if !errors.Is(err, driver.OutOfMemory) {
		return p, g.Check(err, Doing("memory for "+what))
	}
	e := &MemoryError{GPU: g.whose(), What: what, Bytes: n, Err: err}
	var free, total uintptr
	if g.CU.MemGetInfo(&free, &total) == nil {
		e.Free, e.Total = int(free), int(total)
	}
	return 0, e
}

// Put enqueues a copy of host memory to the device. The host's stays as it is
// until the stream has come so far.
func (g *GPU) Put(to driver.DevicePtr, from []byte) error { return g.PutOn(g.Stream, to, from) }

// PutOn is Put on another stream than that of programs.
func (g *GPU) PutOn(s driver.Stream, to driver.DevicePtr, from []byte) error {
	if len(from) == 0 {
		return nil
	}
	return g.CU.MemcpyHtoDAsync(to, unsafe.Pointer(unsafe.SliceData(from)), uintptr(len(from)), s)
}

// Get enqueues a copy of device memory to the host.
func (g *GPU) Get(to []byte, from driver.DevicePtr) error {
	if len(to) == 0 {
		return nil
	}
	return g.CU.MemcpyDtoHAsync(unsafe.Pointer(unsafe.SliceData(to)), from, uintptr(len(to)), g.Stream)
}

// Pinned is memory of the host that kernels read and write, too. What they
// wrote is there when the stream was waited for: no copy is needed, and none
// that the driver would wait for by itself, as for pageable memory.
type Pinned struct {
	Host unsafe.Pointer
	At   driver.DevicePtr
}

// AllocPinned allocates zeros.
func (g *GPU) AllocPinned(n int) (p Pinned, err error) {
	n = max(n, 1)
	if err = g.CU.MemHostAlloc(&p.Host, uintptr(n), driver.HostPortable|driver.HostDeviceMap); err != nil {
		return p, g.Check(err, Doing("pinned memory"))
	}
	clear(unsafe.Slice((*byte)(p.Host), n))
	if err = g.CU.MemHostGetDevicePointer(&p.At, p.Host, 0); err != nil {
		return p, cmp.Or(g.Check(err, Doing("pinned memory")), g.FreePinned(p))
	}
	return p, nil
}

// FreePinned frees it, unless the device is lost.
func (g *GPU) FreePinned(p Pinned) error {
	if p.Host == nil || g.Lost() != nil {
		return nil
	}
	return g.CU.MemFreeHost(p.Host)
}

// Pin keeps pages of the host in memory, where a copy engine can read them. Only whole
// ones: the rest of the Go heap's pages is not ours. note says why copies will be slow.
func (g *GPU) Pin(mem []byte) (unpin func() error, note string) {
	at := unsafe.Pointer(unsafe.SliceData(mem))
	if uintptr(at)%uintptr(os.Getpagesize()) != 0 {
		return func() error { return nil }, ""
	}
	if err := g.CU.MemHostRegister(at, uintptr(len(mem)), driver.HostPortable); err != nil {
		return func() error { return nil }, fmt.Sprintf("%d bytes of shared memory cannot be pinned, so copies to and from the GPU are slow: %v", len(mem), err)
	}
	return func() error { return g.CU.MemHostUnregister(at) }, ""
}
