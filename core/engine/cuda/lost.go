package cuda

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/trainctl/trainctl/core/engine/cuda/driver"
)

// LostError says that a GPU does nothing more for this process: it did not do
// its work in time, or the driver reported a fault that spoils the context. What
// runs on it is over, and nothing is asked of it any more; every later call
// gives the same error.
type LostError struct {
	GPU    string        // whose it is, ordinal and UUID
	What   string        // what was waited for, or where the fault was seen
	Waited time.Duration // 0 for a fault
	Err    error         // what the driver said; nil where it said nothing
}

func (e *LostError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("%s does not answer: %s took more than %v (run.device_timeout); "+
			"a kernel that never ends, or a GPU that has left the bus: dmesg shows Xid errors, nvidia-smi whether it is there, compute-sanitizer what kernels do; "+
			"if the work may take that long, raise run.device_timeout", e.GPU, e.What, e.Waited)
	}
	_, meaning := driver.Fault(e.Err)
	return fmt.Sprintf("%s has failed: %v: %s; seen at %s, but GPUs tell late, and work before may have caused it; "+
		"dmesg shows Xid errors, compute-sanitizer which kernel it was", e.GPU, e.Err, meaning, e.What)
}

// Unwrap gives the driver's error.
func (e *LostError) Unwrap() error { return e.Err }

// MemoryError says that a GPU's memory does not suffice.
type MemoryError struct {
	GPU         string
	What        string // for what
	Bytes       int    // that were asked for
	Free, Total int    // of the device; 0 where the driver did not say
	Err         error
}

func (e *MemoryError) Error() string {
	s := fmt.Sprintf("%s has no memory left for %s: %s asked for", e.GPU, e.What, size(e.Bytes))
	if e.Total > 0 {
		s += fmt.Sprintf(", %s of %s free", size(e.Free), size(e.Total))
	}
	return s + "; lower train.per_rank_batch and raise train.accumulate_steps by as much, compute in half precision ([precision]), or end what else runs there (nvidia-smi)"
}

// Unwrap gives the driver's error.
func (e *MemoryError) Unwrap() error { return e.Err }

// size prints bytes as people count memory.
func size(n int) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%d bytes", n)
}

// gone is the error of a device that was lost; nil of one that works.
func (d *Device) gone() error {
	if e := d.lost.Load(); e != nil {
		return e
	}
	return nil
}

// lose takes note that the device is lost, and returns why: the first to say so is right.
func (d *Device) lose(e *LostError) error {
	e.GPU = d.whose()
	if d.lost.CompareAndSwap(nil, e) {
		close(d.over)
	}
	return d.lost.Load()
}

// told names where the driver returned an error. One that spoils the context loses the device.
func (d *Device) told(err error, where purpose) error {
	if err == nil {
		return nil
	}
	return d.failed(err, where)
}

func (d *Device) failed(err error, where purpose) error {
	var lost *LostError
	var memory *MemoryError
	switch _, meaning := driver.Fault(err); {
	case errors.As(err, &lost), errors.As(err, &memory):
		return err
	case meaning != "":
		return d.lose(&LostError{What: where.String(), Err: err})
	}
	return fmt.Errorf("cuda: %v: %w", where, err)
}

// purpose is what something is done or waited for, put into words when somebody has to be told.
type purpose struct {
	text  string
	n     int           // for the text's %d, if it has one
	where func() string // more, known when it is asked for; may be nil
}

func to(text string) purpose { return purpose{text: text} }

func (p purpose) String() string {
	s := p.text
	if strings.Contains(s, "%d") {
		s = fmt.Sprintf(s, p.n)
	}
	if p.where != nil {
		s += p.where()
	}
	return s
}

// whose is the GPU's name with its owner's.
func (d *Device) whose() string {
	if d.watch.Owner == "" {
		return d.label
	}
	return d.watch.Owner + "'s " + d.label
}

// nameOf is a GPU's ordinal and UUID.
func nameOf(cu *driver.CUDA, dev driver.Device) string {
	var id driver.UUID
	if cu.DeviceGetUUID == nil || cu.DeviceGetUUID(&id, dev) != nil {
		return fmt.Sprintf("GPU %d", dev)
	}
	return fmt.Sprintf("GPU %d (%v)", dev, id)
}

// alloc takes device memory for a purpose.
func (d *Device) alloc(n int, what string) (p driver.DevicePtr, err error) {
	err = d.cu.MemAlloc(&p, uintptr(max(n, 1)))
	if !errors.Is(err, driver.OutOfMemory) {
		return p, d.told(err, to("memory for "+what))
	}
	e := &MemoryError{GPU: d.whose(), What: what, Bytes: n, Err: err}
	var free, total uintptr
	if d.cu.MemGetInfo(&free, &total) == nil {
		e.Free, e.Total = int(free), int(total)
	}
	return 0, e
}
