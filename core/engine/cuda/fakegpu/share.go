package fakegpu

import (
	"encoding/binary"

	"golang.org/x/sys/unix"

	"github.com/trainctl/trainctl/core/base/shm"
	"github.com/trainctl/trainctl/core/engine/cuda/driver"
)

// unit is the granularity of shareable memory.
const unit = 2 << 20

// physical is memory that has no address until it is mapped.
type physical struct {
	owner int // of a handle
	*chunk
}

// chunk is what handles of the same memory share. Its descriptor stands for
// it: a file whose inode no other has.
type chunk struct {
	bytes []byte
	token *shm.Arena
	inode uint64
}

// Inode is what tells the file behind a descriptor from all others.
func Inode(fd int) (uint64, error) {
	var s unix.Stat_t
	if err := unix.Fstat(fd, &s); err != nil {
		return 0, err
	}
	return s.Ino, nil
}

func newChunk(n uintptr) (*chunk, error) {
	token, err := shm.New("fake GPU memory", 4096)
	if err != nil {
		return nil, err
	}
	inode, err := Inode(int(token.File().Fd()))
	return &chunk{bytes: unset(n), token: token, inode: inode}, err
}

func (p *Process) fillVirtual(c *driver.CUDA) {
	m := p.m
	c.MemGetAllocationGranularity = func(n *uintptr, _ *driver.AllocationProp, _ int32) error { *n = unit; return nil }
	c.MemCreate = func(h *driver.MemHandle, n uintptr, prop *driver.AllocationProp, _ uint64) error {
		return m.fails("cuMemCreate", func() driver.CUResult {
			if n == 0 || n%unit != 0 || prop.HandleTypes != driver.HandlePosixFD {
				return driver.InvalidValue
			}
			k, err := newChunk(n)
			if err != nil {
				return driver.OutOfMemory
			}
			*h = driver.MemHandle(m.newHandle())
			m.physical[*h] = &physical{p.id, k}
			m.shared[k.inode] = m.physical[*h]
			return success
		})
	}
	c.MemRelease = func(h driver.MemHandle) error {
		return m.fails("cuMemRelease", func() driver.CUResult {
			a := m.physical[h]
			if a == nil || a.owner != p.id {
				return driver.InvalidValue
			}
			delete(m.physical, h)
			return success
		})
	}
	c.MemExportToShareableHandle = func(fd *int32, h driver.MemHandle, _ int32, _ uint64) error {
		return m.fails("cuMemExportToShareableHandle", func() driver.CUResult {
			a := m.physical[h]
			if a == nil || a.owner != p.id {
				return driver.InvalidValue
			}
			n, err := unix.Dup(int(a.token.File().Fd()))
			if err != nil {
				return driver.UnknownError
			}
			*fd = int32(n)
			return success
		})
	}
	c.MemImportFromShareableHandle = func(h *driver.MemHandle, fd uintptr, _ int32) error {
		inode, err := Inode(int(fd))
		if err != nil {
			return &driver.CallError{Call: "cuMemImportFromShareableHandle", Status: driver.InvalidValue}
		}
		return p.importInode(h, inode)
	}
	p.fillMappings(c)
}

// importInode takes a handle of the memory that a descriptor stands for.
func (p *Process) importInode(h *driver.MemHandle, inode uint64) error {
	m := p.m
	return m.fails("cuMemImportFromShareableHandle", func() driver.CUResult {
		a := m.shared[inode]
		if a == nil {
			return driver.InvalidValue
		}
		*h = driver.MemHandle(m.newHandle())
		m.physical[*h] = &physical{p.id, a.chunk}
		return success
	})
}

func (p *Process) fillMappings(c *driver.CUDA) {
	m := p.m
	c.MemAddressReserve = func(at *driver.DevicePtr, n, _ uintptr, _ driver.DevicePtr, _ uint64) error {
		return m.fails("cuMemAddressReserve", func() driver.CUResult {
			if n == 0 || n%unit != 0 {
				return driver.InvalidValue
			}
			*at = p.place(&mapping{kind: reserved, size: n})
			return success
		})
	}
	c.MemAddressFree = func(at driver.DevicePtr, n uintptr) error {
		return m.fails("cuMemAddressFree", func() driver.CUResult {
			a := p.mapped(at, reserved)
			if a == nil || a.size != n || a.source != nil {
				return driver.InvalidValue
			}
			delete(m.memory, at)
			return success
		})
	}
	c.MemMap = func(at driver.DevicePtr, n, offset uintptr, h driver.MemHandle, _ uint64) error {
		return m.fails("cuMemMap", func() driver.CUResult {
			a, from := p.mapped(at, reserved), m.physical[h]
			if a == nil || from == nil || from.owner != p.id || a.size != n || offset != 0 || a.source != nil || n != uintptr(len(from.bytes)) {
				return driver.InvalidValue
			}
			a.source = from
			return success
		})
	}
	c.MemSetAccess = func(at driver.DevicePtr, n uintptr, access *driver.AccessDesc, count uintptr) error {
		return m.fails("cuMemSetAccess", func() driver.CUResult {
			a := p.mapped(at, reserved)
			if a == nil || a.source == nil || a.size != n || count != 1 || access.Flags != driver.AccessReadWrite {
				return driver.InvalidValue
			}
			a.bytes = a.source.bytes
			return success
		})
	}
	c.MemUnmap = func(at driver.DevicePtr, n uintptr) error {
		return m.fails("cuMemUnmap", func() driver.CUResult {
			a := p.mapped(at, reserved)
			if a == nil || a.source == nil || a.size != n {
				return driver.InvalidValue
			}
			a.bytes, a.source = nil, nil
			return success
		})
	}
}

// ipcMagic begins the handles of this machine.
const ipcMagic = 0xfa4e

func put(b []byte, name uint64) {
	binary.LittleEndian.PutUint64(b, ipcMagic)
	binary.LittleEndian.PutUint64(b[8:], name)
}

func get(b []byte) (name uint64, ok bool) {
	return binary.LittleEndian.Uint64(b[8:]), binary.LittleEndian.Uint64(b) == ipcMagic
}

// fillIPC makes handles that another process can open, and the one that made
// them cannot.
func (p *Process) fillIPC(c *driver.CUDA) {
	m := p.m
	c.IPCGetMemHandle = func(h *driver.IPCMemHandle, at driver.DevicePtr) error {
		return m.fails("cuIpcGetMemHandle", func() driver.CUResult {
			a := p.mapped(at, allocated)
			if a == nil {
				return driver.InvalidValue
			}
			put(h.Bytes[:], a.name)
			return success
		})
	}
	c.IPCOpenMemHandle = func(at *driver.DevicePtr, h driver.IPCMemHandle, _ uint32) error {
		return m.fails("cuIpcOpenMemHandle", func() driver.CUResult {
			name, ok := get(h.Bytes[:])
			for _, a := range m.memory {
				switch {
				case !ok || a.name != name || a.kind != allocated:
				case a.owner == p.id:
					return driver.InvalidContext
				default:
					*at = p.place(&mapping{kind: opened, name: name, bytes: a.bytes, size: a.size})
					return success
				}
			}
			return driver.InvalidValue
		})
	}
	c.IPCCloseMemHandle = func(at driver.DevicePtr) error {
		return m.fails("cuIpcCloseMemHandle", func() driver.CUResult {
			if p.mapped(at, opened) == nil {
				return driver.InvalidValue
			}
			delete(m.memory, at)
			return success
		})
	}
	c.IPCGetEventHandle = func(h *driver.IPCEventHandle, event driver.Event) error {
		return m.fails("cuIpcGetEventHandle", func() driver.CUResult {
			e := p.event(event)
			if e == nil || e.home != p.id || e.flags&driver.EventInterprocess == 0 {
				return driver.InvalidHandle
			}
			put(h.Bytes[:], uint64(event))
			return success
		})
	}
	c.IPCOpenEventHandle = func(out *driver.Event, h driver.IPCEventHandle) error {
		return m.fails("cuIpcOpenEventHandle", func() driver.CUResult {
			name, ok := get(h.Bytes[:])
			from := m.events[driver.Event(name)]
			switch {
			case !ok || from == nil:
				return driver.InvalidValue
			case from.owner == p.id:
				return driver.InvalidContext
			}
			*out = driver.Event(m.newHandle())
			m.events[*out] = &event{owner: p.id, flags: from.flags, record: from.record}
			return success
		})
	}
}
