package memory

import (
	"cmp"
	"slices"
	"unsafe"

	"github.com/trainctl/trainctl/core/engine/cuda/driver"
	"github.com/trainctl/trainctl/core/engine/cuda/gpu"
	"github.com/trainctl/trainctl/core/engine/plan"
	"github.com/trainctl/trainctl/core/tensor"
)

// sharedCopy is the device's copy of a tensor that is not resident, shared by all programs over it.
type sharedCopy struct {
	at    driver.DevicePtr
	users int
}

// room is the arena and workspace that programs use one after the other.
type room struct {
	data, work         driver.DevicePtr
	dataSize, workSize int
	users              int
}

// Program is where the operands of one bound plan lie.
type Program struct {
	GPU          *gpu.GPU
	Tensors      []driver.DevicePtr // of the State, by index
	Grads        []driver.DevicePtr
	Batch        driver.DevicePtr // input, then target
	Target       driver.DevicePtr
	Call         driver.DevicePtr // a run's words
	Stats, Fault driver.DevicePtr // pinned: what it reports
	Accumulate   int32            // whether gradients are added, as kernels read it

	residency *Residency
	resident  map[driver.DevicePtr]bool // those that need no copies
	room      *room
	copies    []*WorkingCopy
	owned     []func() error
}

const line = 256 // what device addresses are aligned to

// RoundUp is a size with which what follows is aligned as allocations are.
func RoundUp(n int) int { return tensor.RoundUp(n, line) }

// NewProgram finds memory for a plan over a State: its own, with an arena and a
// workspace of so many bytes, the room that programs share. Free it also after an error.
func (r *Residency) NewProgram(p *plan.Plan, st plan.State, workspace int) (m *Program, err error) {
	m = &Program{GPU: r.g, residency: r, resident: map[driver.DevicePtr]bool{}}
	if m.room, err = r.reserve(p.ArenaBytes(), workspace); err != nil {
		return m, err
	}
	m.OnFree(func() error { return r.release(m.room) })
	if m.Tensors, err = m.copiesOf(st.Tensors); err != nil {
		return m, err
	}
	if m.Grads, err = m.copiesOf(st.Grads); err != nil {
		return m, err
	}
	in, target := p.Batches()
	if m.Batch, err = m.Own(RoundUp(in.Bytes())+target.Bytes(), "a batch"); err != nil {
		return m, err
	}
	m.Target = m.Batch + driver.DevicePtr(RoundUp(in.Bytes()))
	m.Call, err = m.Own(24, "a run")
	return m, err
}

// Resident reports that a tensor of the State is on the device and needs no copies.
func (m *Program) Resident(at driver.DevicePtr) bool { return m.resident[at] }

// Work is an address in the workspace, which steps use one after the other.
func (m *Program) Work(offset int) driver.DevicePtr { return m.room.work + driver.DevicePtr(offset) }

// OnFree adds what Free does, the last first.
func (m *Program) OnFree(f func() error) { m.owned = append(m.owned, f) }

// Free gives back what only this program used. On a device that is lost
// everything is left as it is: the driver frees it with the process.
func (m *Program) Free() (err error) {
	for _, f := range slices.Backward(m.owned) {
		if m.GPU.Lost() != nil {
			break
		}
		err = cmp.Or(err, f())
	}
	m.owned = nil
	return err
}

// reserve finds room for the largest program so far. Programs bound before keep theirs.
func (r *Residency) reserve(data, work int) (o *room, err error) {
	if o = r.room; o == nil || o.users == 0 || o.dataSize < data || o.workSize < work {
		o = &room{dataSize: data, workSize: work}
		if o.data, err = r.g.Alloc(data, "activations"); err != nil {
			return nil, err
		}
		if o.work, err = r.g.Alloc(work, "the workspace of kernels"); err != nil {
			return nil, cmp.Or(err, r.g.CU.MemFree(o.data))
		}
		r.room = o
	}
	o.users++
	return o, nil
}

func (r *Residency) release(o *room) error {
	if o.users--; o.users > 0 {
		return nil
	}
	return cmp.Or(r.g.CU.MemFree(o.data), r.g.CU.MemFree(o.work))
}

// copiesOf are the device's copies of tensors of the State.
func (m *Program) copiesOf(list []tensor.Tensor) (all []driver.DevicePtr, err error) {
	for _, t := range list {
		at, err := m.copyOf(t)
		if err != nil {
			return nil, err
		}
		all = append(all, at)
	}
	return all, nil
}

// copyOf is the device's copy of a tensor: the one that is resident, or one that programs over it share.
func (m *Program) copyOf(t tensor.Tensor) (driver.DevicePtr, error) {
	if len(t.Data) == 0 {
		return 0, nil
	}
	r := m.residency
	if at, ok := r.CopyOf(t.Data); ok {
		m.resident[at] = true
		return at, nil
	}
	key := unsafe.SliceData(t.Data)
	c := r.shared[key]
	if c == nil {
		at, err := r.g.Alloc(len(t.Data), "a tensor of the model")
		if err != nil {
			return 0, err
		}
		c = &sharedCopy{at: at}
		r.shared[key] = c
	}
	c.users++
	m.OnFree(func() error {
		if c.users--; c.users > 0 {
			return nil
		}
		delete(r.shared, key)
		return r.g.CU.MemFree(c.at)
	})
	return c.at, nil
}

// Own allocates what only this program needs.
func (m *Program) Own(n int, what string) (driver.DevicePtr, error) {
	p, err := m.GPU.Alloc(n, what)
	if err == nil {
		m.OnFree(func() error { return m.GPU.CU.MemFree(p) })
	}
	return p, err
}

// OwnPinned is pinned memory of only this program.
func (m *Program) OwnPinned(n int) (gpu.Pinned, error) {
	p, err := m.GPU.AllocPinned(n)
	if err == nil {
		m.OnFree(func() error { return m.GPU.FreePinned(p) })
	}
	return p, err
}

// At is an operand's address; 0 for an absent one.
func (m *Program) At(o *plan.Operand) driver.DevicePtr {
	switch o.Place {
	case plan.PlaceArena:
		return m.room.data + driver.DevicePtr(o.Offset)
	case plan.PlaceInput:
		return m.Batch
	case plan.PlaceTarget:
		return m.Target
	case plan.PlaceState:
		return m.Tensors[o.Index]
	case plan.PlaceGrad:
		return m.Grads[o.Index]
	case PlaceCopy:
		return m.copies[o.Index].At
	}
	return 0
}
