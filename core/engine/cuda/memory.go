package cuda

import (
	"unsafe"

	"github.com/trainctl/trainctl/core/engine/cuda/driver"
	"github.com/trainctl/trainctl/core/engine/plan"
	"github.com/trainctl/trainctl/core/tensor"
)

// mirror is the device's copy of a tensor of the State, shared by all programs over it.
type mirror struct {
	at    driver.DevicePtr
	users int
}

// room is the arena and workspace in which programs take turns.
type room struct {
	data, work         driver.DevicePtr
	dataSize, workSize int
	users              int
}

// memory is where the operands of one bound plan lie.
type memory struct {
	dev          *Device
	st           plan.State
	state, grads []driver.DevicePtr
	resident     map[driver.DevicePtr]bool // those that need no copies
	room         *room
	batch        driver.DevicePtr // input, then target
	target       driver.DevicePtr
	call         driver.DevicePtr // a run's words
	stats, fault driver.DevicePtr // pinned: what it reports
	accumulate   int32
	owned        []func() error
}

const line = 256 // what device addresses are aligned to

func roundUp(n int) int { return (n + line - 1) &^ (line - 1) }

// reserve finds room for the largest program so far. Programs bound before keep theirs.
func (d *Device) reserve(data, work int) (r *room, err error) {
	if r = d.room; r == nil || r.users == 0 || r.dataSize < data || r.workSize < work {
		r = &room{dataSize: data, workSize: work}
		if r.data, err = d.alloc(data, "activations"); err != nil {
			return nil, err
		}
		if r.work, err = d.alloc(work, "the workspace of kernels"); err != nil {
			return nil, joinFree(err, d.cu.MemFree(r.data))
		}
		d.room = r
	}
	r.users++
	return r, nil
}

func (d *Device) release(r *room) error {
	if r.users--; r.users > 0 {
		return nil
	}
	return joinFree(d.cu.MemFree(r.data), d.cu.MemFree(r.work))
}

// mirrored is the device's copy of a tensor.
func (m *memory) mirrored(t tensor.Tensor) (driver.DevicePtr, error) {
	if len(t.Data) == 0 {
		return 0, nil
	}
	if at, ok := m.dev.copyOf(t.Data); ok {
		m.resident[at] = true
		return at, nil
	}
	key := unsafe.SliceData(t.Data)
	r := m.dev.mirrors[key]
	if r == nil {
		p, err := m.dev.alloc(len(t.Data), "a tensor of the model")
		if err != nil {
			return 0, err
		}
		r = &mirror{at: p}
		m.dev.mirrors[key] = r
	}
	r.users++
	m.owned = append(m.owned, func() error {
		if r.users--; r.users > 0 {
			return nil
		}
		delete(m.dev.mirrors, key)
		return m.dev.cu.MemFree(r.at)
	})
	return r.at, nil
}

// own allocates what only this program needs.
func (m *memory) own(n int, what string) (driver.DevicePtr, error) {
	p, err := m.dev.alloc(n, what)
	if err == nil {
		m.owned = append(m.owned, func() error { return m.dev.cu.MemFree(p) })
	}
	return p, err
}

// at is an operand's address; 0 for an absent one.
func (m *memory) at(o *plan.Operand) driver.DevicePtr {
	switch o.Place {
	case plan.PlaceArena:
		return m.room.data + driver.DevicePtr(o.Offset)
	case plan.PlaceInput:
		return m.batch
	case plan.PlaceTarget:
		return m.target
	case plan.PlaceState:
		return m.state[o.Index]
	case plan.PlaceGrad:
		return m.grads[o.Index]
	}
	return 0
}

func (m *memory) up(to driver.DevicePtr, from []byte) error {
	if len(from) == 0 {
		return nil
	}
	return m.dev.cu.MemcpyHtoDAsync(to, unsafe.Pointer(unsafe.SliceData(from)), uintptr(len(from)), m.dev.stream)
}

func (m *memory) down(to []byte, from driver.DevicePtr) error {
	if len(to) == 0 {
		return nil
	}
	return m.dev.cu.MemcpyDtoHAsync(unsafe.Pointer(unsafe.SliceData(to)), from, uintptr(len(to)), m.dev.stream)
}

func joinFree(a, b error) error {
	if a != nil {
		return a
	}
	return b
}
