package ops

import (
	"unsafe"

	"github.com/trainctl/trainctl/core/engine/cuda/driver"
	"github.com/trainctl/trainctl/core/engine/cuda/gpu"
	"github.com/trainctl/trainctl/core/engine/plan"
)

// Item is a launch, a library's function that enqueues, or what the host does between two.
type Item struct {
	Name string                   // of the kernel or the function
	Host func(c *plan.Call) error // nil unless it is for the host

	f            driver.Function
	x, y         uint32 // blocks
	params       []unsafe.Pointer
	call         func() error
	when, unless *int32 // if given: runs where that is not 0, and where this is
}

func (it *Item) skipped() bool {
	return it.when != nil && *it.when == 0 || it.unless != nil && *it.unless != 0
}

// Enqueue launches an item that is not for the host on the device's stream.
func (it *Item) Enqueue(g *gpu.GPU) error {
	switch {
	case it.skipped():
		return nil
	case it.call != nil:
		return it.call()
	default:
		return g.CU.LaunchKernel(it.f, it.x, it.y, 1, uint32(g.Block), 1, 1, 0, g.Stream, unsafe.SliceData(it.params), nil)
	}
}
