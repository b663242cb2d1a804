package fakegpu

import (
	"unsafe"

	"github.com/trainctl/trainctl/core/engine/cuda/driver"
	"github.com/trainctl/trainctl/core/tensor"
)

// mapping is memory at an address of one process.
type mapping struct {
	owner  int
	kind   mappingKind
	name   uint64 // of the allocation, for IPC handles
	bytes  []byte // nil: reserved addresses, or without access
	size   uintptr
	source *physical
}

type mappingKind int

const (
	allocated mappingKind = iota // cuMemAlloc
	reserved                     // cuMemAddressReserve
	opened                       // cuIpcOpenMemHandle
	onHost                       // cuMemHostAlloc
)

// unset fills memory with content that no code may rely on: NaN in every type.
func unset(n uintptr) []byte {
	b := tensor.Aligned(int(n))
	for i := range b {
		b[i] = 0xff
	}
	return b
}

// at is the memory behind n bytes from an address of the process, nil if they
// are not all in one allocation.
func (p *Process) at(address driver.DevicePtr, n uintptr) []byte {
	for base, a := range p.m.memory {
		if a.owner == p.id && address >= base && uint64(address-base)+uint64(n) <= uint64(len(a.bytes)) {
			return a.bytes[address-base:][:n:n]
		}
	}
	return nil
}

// lie gives memory the address that it has here, where kernels find it.
func (p *Process) lie(a *mapping) driver.DevicePtr {
	at := driver.DevicePtr(address(unsafe.SliceData(a.bytes)))
	a.owner = p.id
	p.m.memory[at] = a
	return at
}

// place gives n bytes a made-up address.
func (p *Process) place(a *mapping) driver.DevicePtr {
	m := p.m
	at := m.top
	a.owner = p.id
	m.memory[at] = a
	m.top += driver.DevicePtr(a.size+511) &^ 255 // never side by side
	return at
}

// mapped is what lies at a base address of the process.
func (p *Process) mapped(at driver.DevicePtr, kind mappingKind) *mapping {
	if a := p.m.memory[at]; a != nil && a.owner == p.id && a.kind == kind {
		return a
	}
	return nil
}

func (p *Process) fillMemory(c *driver.CUDA) {
	m := p.m
	c.MemAlloc = func(at *driver.DevicePtr, n uintptr) error {
		return m.fails("cuMemAlloc", func() driver.CUResult {
			if n == 0 {
				return driver.InvalidValue
			}
			if m.full {
				return driver.OutOfMemory
			}
			*at = p.lie(&mapping{kind: allocated, name: uint64(m.newHandle()), bytes: unset(n), size: n})
			m.allocated++
			return success
		})
	}
	c.MemFree = func(at driver.DevicePtr) error {
		return m.fails("cuMemFree", func() driver.CUResult {
			a := p.mapped(at, allocated)
			if a == nil {
				if m.t != nil {
					m.mistake("cuMemFree of %#x, which is not an allocation", at)
				}
				return driver.InvalidValue
			}
			m.settle()
			for _, o := range m.memory {
				if o.kind == opened && o.name == a.name {
					m.mistake("memory was freed while another process had it open")
				}
			}
			delete(m.memory, at)
			return success
		})
	}
	c.MemGetInfo = func(free, total *uintptr) error {
		m.locked(func() {
			*total = 80 << 30
			*free = *total - uintptr(len(m.contexts))*contextSize
			for _, a := range m.memory {
				if a.kind == allocated {
					*free -= a.size
				}
			}
		})
		return nil
	}
	c.MemHostRegister = func(host unsafe.Pointer, _ uintptr, _ uint32) error {
		return m.fails("cuMemHostRegister", func() driver.CUResult {
			if m.pinned[uintptr(host)] != 0 {
				return driver.HostMemoryRegistered
			}
			m.pinned[uintptr(host)] = p.id
			return success
		})
	}
	c.MemHostUnregister = func(host unsafe.Pointer) error { m.locked(func() { delete(m.pinned, uintptr(host)) }); return nil }
}

// contextSize is what a process with a context takes of a device.
const contextSize = 300 << 20

// slowness is how often a copy to the device is looked at before it is done, so
// that what should have waited for it sees the memory of before.
const slowness = 8

func (p *Process) fillCopies(c *driver.CUDA) {
	c.MemcpyHtoDAsync = func(to driver.DevicePtr, from unsafe.Pointer, n uintptr, s driver.Stream) error {
		return p.enqueue("cuMemcpyHtoDAsync", s, func() (func() bool, driver.CUResult) {
			b := p.at(to, n)
			if b == nil {
				return nil, p.beyond("cuMemcpyHtoDAsync", to, n)
			}
			looks := slowness
			return func() bool {
				if looks--; looks > 0 {
					return false
				}
				copy(b, unsafe.Slice((*byte)(from), n))
				return true
			}, success
		})
	}
	c.MemcpyDtoDAsync = func(to, from driver.DevicePtr, n uintptr, s driver.Stream) error {
		return p.enqueue("cuMemcpyDtoDAsync", s, func() (func() bool, driver.CUResult) {
			a, b := p.at(to, n), p.at(from, n)
			if a == nil || b == nil {
				return nil, p.beyond("cuMemcpyDtoDAsync", from, n)
			}
			return func() bool { copy(a, b); return true }, success
		})
	}
	c.MemsetD8Async = func(to driver.DevicePtr, v uint8, n uintptr, s driver.Stream) error {
		return p.enqueue("cuMemsetD8Async", s, func() (func() bool, driver.CUResult) {
			b := p.at(to, n)
			if b == nil {
				return nil, p.beyond("cuMemsetD8Async", to, n)
			}
			return func() bool {
				for i := range b {
					b[i] = v
				}
				return true
			}, success
		})
	}
	c.MemcpyDtoH = func(to unsafe.Pointer, from driver.DevicePtr, n uintptr) error {
		return p.m.fails("cuMemcpyDtoH", func() driver.CUResult {
			b := p.at(from, n)
			if b == nil {
				return driver.InvalidValue
			}
			copy(unsafe.Slice((*byte)(to), n), b)
			return success
		})
	}
	c.MemcpyDtoHAsync = func(to unsafe.Pointer, from driver.DevicePtr, n uintptr, s driver.Stream) error {
		return p.enqueue("cuMemcpyDtoHAsync", s, func() (func() bool, driver.CUResult) {
			b := p.at(from, n)
			if b == nil {
				return nil, p.beyond("cuMemcpyDtoHAsync", from, n)
			}
			return func() bool { copy(unsafe.Slice((*byte)(to), n), b); return true }, success
		})
	}
}

// beyond is the answer to a use of memory that is not all in one allocation.
func (p *Process) beyond(call string, at driver.DevicePtr, n uintptr) driver.CUResult {
	if p.m.t != nil {
		p.m.mistake("%s: %d bytes at %#x are not allocated", call, n, at)
	}
	return driver.InvalidValue
}

// fillHostMemory makes memory of the host that kernels read and write at the same address.
func (p *Process) fillHostMemory(c *driver.CUDA) {
	m := p.m
	c.MemHostAlloc = func(at *unsafe.Pointer, n uintptr, _ uint32) error {
		return m.fails("cuMemHostAlloc", func() driver.CUResult {
			a := &mapping{kind: onHost, bytes: unset(n), size: n}
			p.lie(a)
			*at = unsafe.Pointer(unsafe.SliceData(a.bytes))
			return success
		})
	}
	c.MemHostGetDevicePointer = func(at *driver.DevicePtr, host unsafe.Pointer, _ uint32) error {
		return m.fails("cuMemHostGetDevicePointer", func() driver.CUResult {
			if *at = driver.DevicePtr(uintptr(host)); p.mapped(*at, onHost) == nil {
				return driver.InvalidValue
			}
			return success
		})
	}
	c.MemFreeHost = func(host unsafe.Pointer) error {
		return m.fails("cuMemFreeHost", func() driver.CUResult {
			at := driver.DevicePtr(uintptr(host))
			if p.mapped(at, onHost) == nil {
				return driver.InvalidValue
			}
			m.settle()
			delete(m.memory, at)
			return success
		})
	}
}

// Fill makes allocations fail, or succeed again.
func (m *Machine) Fill(full bool) { m.locked(func() { m.full = full }) }

// Allocations is how many pieces of memory there are, and how often any was allocated on a device.
func (m *Machine) Allocations() (now, ever int) {
	m.locked(func() { now, ever = len(m.memory), m.allocated })
	return now, ever
}
