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
)

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

// place gives n bytes an address.
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
			*at = p.place(&mapping{kind: allocated, name: uint64(m.newHandle()), bytes: tensor.Aligned(int(n)), size: n})
			return success
		})
	}
	c.MemFree = func(at driver.DevicePtr) error {
		return m.fails("cuMemFree", func() driver.CUResult {
			a := p.mapped(at, allocated)
			if a == nil {
				return driver.InvalidValue
			}
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
				return nil, driver.InvalidValue
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
				return nil, driver.InvalidValue
			}
			return func() bool { copy(unsafe.Slice((*byte)(to), n), b); return true }, success
		})
	}
}
