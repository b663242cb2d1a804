package gpu

import (
	"errors"
	"fmt"
	"time"

	"github.com/trainctl/trainctl/core/engine/cuda/driver"
)

// LostError reports that this process cannot use a GPU any more: it did not do its
// work in time, or the driver reported a fault that spoils the context. What runs on
// it is over, and it is not called any more; every later call gives the same
// error.
type LostError struct {
	GPU    string        // whose it is, ordinal and UUID
	What   string        // what was waited for, or where the fault was seen
	Waited time.Duration // 0 for a fault
	Err    error         // what the driver said; nil where it said nothing
}

func (e *LostError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("%s does not answer: %s took more than %v (run.device_timeout); "+
			"a kernel never ends, or the GPU has fallen off the bus: check dmesg for Xid errors, nvidia-smi for the GPU, compute-sanitizer for kernels; "+
			"if the work may take that long, raise run.device_timeout", e.GPU, e.What, e.Waited)
	}
	_, meaning := driver.Fault(e.Err)
	return fmt.Sprintf("%s has failed: %v: %s; reported by %s, but GPUs report errors late: earlier work may have caused it; "+
		"fix: look for Xid errors in dmesg, and for the kernel with compute-sanitizer", e.GPU, e.Err, meaning, e.What)
}

// Unwrap returns the driver's error.
func (e *LostError) Unwrap() error { return e.Err }

// lose records that the device is lost, and returns the first recorded reason.
func (g *GPU) lose(e *LostError) error {
	e.GPU = g.whose()
	if g.lost.CompareAndSwap(nil, e) {
		close(g.over)
	}
	return g.lost.Load()
}

// Check adds to an error of the driver where it occurred. An error that makes the
// context unusable marks the device as lost.
func (g *GPU) Check(err error, where Activity) error {
	if err == nil {
		return nil
	}
	return g.failed(err, where)
}

func (g *GPU) failed(err error, where Activity) error {
	var lost *LostError
	var memory *MemoryError
	switch _, meaning := driver.Fault(err); {
	case errors.As(err, &lost), errors.As(err, &memory):
		return err
	case meaning != "":
		return g.lose(&LostError{What: where.String(), Err: err})
	}
	return fmt.Errorf("cuda: %v: %w", where, err)
}

// whose is the GPU's name with its owner's.
func (g *GPU) whose() string {
	if g.watch.Owner == "" {
		return g.label
	}
	return g.watch.Owner + "'s " + g.label
}

// nameOf is a GPU's ordinal and UUID.
func nameOf(cu *driver.CUDA, dev driver.Device) string {
	var id driver.UUID
	if cu.DeviceGetUUID == nil || cu.DeviceGetUUID(&id, dev) != nil {
		return fmt.Sprintf("GPU %d", dev)
	}
	return fmt.Sprintf("GPU %d (%v)", dev, id)
}
