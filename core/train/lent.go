package train

import (
	"context"
	"errors"

	"github.com/trainctl/trainctl/core/engine/plan"
	"github.com/trainctl/trainctl/core/report/event"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/train/recovery"
)

// Gradients on a device are reduced in one of two places. A backend that can reach the
// device's memory sums them up where they lie; for any other they are copied to
// the host's arena and back, a bucket at a time.

// lentMemory is the copy of the arena on the device, where a backend can reach it.
type lentMemory struct {
	mem     plan.Lent  // nil: none can
	arena   *sdk.Arena // mem, as the backend knows it
	refused error      // why it does not know it
	warned  bool       // that buckets are reduced in the host's memory
}

// copyArena gives the arena its copy on the device, in memory that can be lent if lend is true.
func (d *deviceMemory) copyArena(dev plan.Resident, mem []byte, lend, compressed bool) (note string, err error) {
	if lend {
		var refused error
		if compressed {
			refused = errors.New("ddp.compress works in the host's memory")
		} else if d.lent.mem, note, refused = dev.Lend(mem); refused == nil {
			d.release = d.lent.mem.Close
			return note, nil
		}
		d.warnThroughHost(refused)
	}
	d.release, note, err = dev.Mirror(mem)
	return note, err
}

// warnThroughHost says once why a backend that could sum up gradients on the device does not.
func (d *deviceMemory) warnThroughHost(why error) {
	if d.lent.warned {
		return
	}
	d.lent.warned = true
	d.events.Emit(&event.Warning{Source: "backend", Message: "gradients are reduced by way of the host's memory, not on the device: " + why.Error()})
}

// Attach shows the device's memory to a backend that was just opened. One that
// refuses it finds gradients in the host's; one that breaks over it is an error.
func (d *deviceMemory) Attach(ctx context.Context) error {
	if d.lent.mem == nil {
		return nil
	}
	if d.lent.refused = d.export(ctx); d.lent.refused != nil {
		if ctx.Err() != nil || recovery.Replaceable(d.lent.refused) {
			return d.lent.refused
		}
		d.warnThroughHost(d.lent.refused)
	}
	return d.route()
}

func (d *deviceMemory) export(ctx context.Context) error {
	placed, ok := d.backend.(interface{ Placement() sdk.Placement })
	mem, err := d.lent.mem.Export(ok && placed.Placement().InProcess)
	if err != nil {
		return err
	}
	d.lent.arena = &sdk.Arena{ID: d.memory.arena.ID + 1, Name: "gradients on the device", Device: mem}
	if err := d.backend.Attach(ctx, d.lent.arena); err != nil {
		return err
	}
	return d.lent.mem.Attached(mem)
}

// route tells the reducer where its buckets are reduced.
func (d *deviceMemory) route() (err error) {
	if d.lent.mem != nil && d.lent.refused == nil {
		d.reducer.Within(d.dev, d.lent.mem, d.lent.arena)
		return nil
	}
	if d.stage == nil {
		buckets := make([][]byte, len(d.memory.buckets))
		for i, r := range d.memory.buckets {
			buckets[i] = d.memory.bytes(r)
		}
		if d.stage, err = d.dev.Stage(buckets); err != nil {
			return err
		}
	}
	d.reducer.Through(d.stage)
	return nil
}
