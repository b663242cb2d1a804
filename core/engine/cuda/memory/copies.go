package memory

import (
	"unsafe"

	"github.com/trainctl/trainctl/core/engine/cuda/driver"
	"github.com/trainctl/trainctl/core/engine/cuda/kernels"
	"github.com/trainctl/trainctl/core/engine/plan"
	"github.com/trainctl/trainctl/core/tensor"
)

// PlaceCopy is the place of an operand that is a program's working copy, by Index.
const PlaceCopy plan.Place = 255

// WorkingCopy is a weight in the half type that steps compute with, kept from run to
// run and shared by all programs. The optimizer writes it in the pass that
// updates the weight; whatever else writes the weight makes it stale, and it is cast anew
// before the next run.
type WorkingCopy struct {
	At    driver.DevicePtr
	DType tensor.DType

	weight driver.DevicePtr
	from   tensor.DType
	n      int
	users  int
	fresh  bool
	params [6]unsafe.Pointer // of the kernel that casts
	args   castArgs
}

// castArgs are the numbers among the parameters of pointwise.cu's cast.
type castArgs struct{ from, to, n, add int32 }

type copyKey struct {
	weight driver.DevicePtr
	d      tensor.DType
}

// NeedCopy makes the working copy of a resident tensor of the State, in type d, the
// program's next: operands find it by PlaceCopy and the order of the calls.
func (m *Program) NeedCopy(weight int, of tensor.Spec, d tensor.DType) error {
	r, key := m.residency, copyKey{m.Tensors[weight], d}
	c := r.copies[key]
	if c == nil {
		n := of.Shape.Elems()
		at, err := r.g.Alloc(n*d.Size(), "half-precision copies of weights")
		if err != nil {
			return err
		}
		c = &WorkingCopy{At: at, DType: d, weight: key.weight, from: of.DType, n: n, args: castArgs{kernels.Code(of.DType), kernels.Code(d), int32(n), 0}}
		a := &c.args
		c.params = [6]unsafe.Pointer{unsafe.Pointer(&c.weight), unsafe.Pointer(&a.from), unsafe.Pointer(&c.At), unsafe.Pointer(&a.to), unsafe.Pointer(&a.n), unsafe.Pointer(&a.add)}
		r.copies[key] = c
		r.copiesChanged++
		if end := key.weight + driver.DevicePtr(of.Bytes()); r.copiedTo == 0 {
			r.copiedFrom, r.copiedTo = key.weight, end
		} else {
			r.copiedFrom, r.copiedTo = min(r.copiedFrom, key.weight), max(r.copiedTo, end)
		}
	}
	c.users++
	m.copies = append(m.copies, c)
	m.OnFree(func() error {
		if c.users--; c.users > 0 {
			return nil
		}
		delete(r.copies, key)
		r.copiesChanged++
		return r.g.CU.MemFree(c.At)
	})
	return nil
}

// RefreshCopies enqueues the casts of the program's working copies that are stale.
func (m *Program) RefreshCopies() error {
	for _, c := range m.copies {
		if c.fresh {
			continue
		}
		blocks := max(1, min((c.n+4*m.GPU.Block-1)/(4*m.GPU.Block), kernels.MostBlocks))
		if err := m.GPU.Launch(tensor.F32, "cast", blocks, &c.params[0]); err != nil {
			return err
		}
		c.fresh = true
	}
	return nil
}

// CopiesChanged is another number when there are other working copies than before.
func (r *Residency) CopiesChanged() int { return r.copiesChanged }

// WorkingCopies are those of the weight at an address, in half types: the one that an
// optimizer's kernel writes beside the weight, nil where there is none, and
// any other, which is stale after the update.
func (r *Residency) WorkingCopies(weight driver.DevicePtr) (written *WorkingCopy, others []*WorkingCopy) {
	for _, d := range [...]tensor.DType{tensor.BF16, tensor.F16} {
		switch c := r.copies[copyKey{weight, d}]; {
		case c == nil:
		case written == nil:
			written = c
		default:
			others = append(others, c)
		}
	}
	return written, others
}

// Written says that the copy was written with its weight, or was not.
func (c *WorkingCopy) Written(too bool) { c.fresh = too }

// written makes working copies of what lies in device memory stale.
func (r *Residency) written(at driver.DevicePtr, n int) {
	if at >= r.copiedTo || at+driver.DevicePtr(n) <= r.copiedFrom {
		return // as buckets are, in every step
	}
	for _, c := range r.copies {
		if c.weight < at+driver.DevicePtr(n) && at < c.weight+driver.DevicePtr(c.n*c.from.Size()) {
			c.fresh = false
		}
	}
}
