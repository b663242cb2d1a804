package cuda

import (
	"unsafe"

	"github.com/trainctl/trainctl/core/engine/cuda/driver"
	"github.com/trainctl/trainctl/core/engine/plan"
)

// item is a launch, a library's function that enqueues, or what the host does between two.
type item struct {
	f      driver.Function
	name   string
	x, y   uint32
	params []unsafe.Pointer
	call   func() error
	host   func(c *plan.Call) error

	when, unless *int32 // if given: runs where that is not 0, and where this is
}

func (it *item) skipped() bool {
	return it.when != nil && *it.when == 0 || it.unless != nil && *it.unless != 0
}

// enqueue launches an item on the device's stream.
func (e *executor) enqueue(it *item) error {
	switch d := e.m.dev; {
	case it.skipped():
		return nil
	case it.call != nil:
		return it.call()
	default:
		return d.cu.LaunchKernel(it.f, it.x, it.y, 1, uint32(d.block), 1, 1, 0, d.stream, unsafe.SliceData(it.params), nil)
	}
}
