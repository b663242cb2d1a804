package replica

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

// sharedCopy is the copy of the arena on the device, in memory that a backend can reach.
type sharedCopy struct {
	mem     plan.Shared // nil: none can
	arena   *sdk.Arena  // mem, as the backend knows it
	refused error       // why the backend refused it
	warned  bool        // that buckets are reduced in the host's memory
}

// copyArena gives the arena its copy on the device, shared with the backend if share is true
// and both can.
func (d *Device) copyArena(dev plan.Resident, mem []byte, share, compressed bool) (note string, err error) {
	if share {
		var refused error
		if compressed {
			refused = errors.New("ddp.compress works in host memory")
		} else if d.shared.mem, note, refused = dev.MirrorShared(mem); refused == nil {
			d.release = d.shared.mem.Close
			return note, nil
		}
		d.warnThroughHost(refused)
	}
	d.release, note, err = dev.Mirror(mem)
	return note, err
}

// warnThroughHost says once why a backend that could sum up gradients on the device does not.
func (d *Device) warnThroughHost(why error) {
	if d.shared.warned {
		return
	}
	d.shared.warned = true
	d.Events.Emit(&event.Warning{Source: "backend", Message: "gradients are reduced in host memory, not on the device: " + why.Error()})
}

// Attach shows the device's memory to a backend that was just opened. If the backend refuses it,
// gradients are reduced in the host's memory; if the backend fails, that is an error.
func (d *Device) Attach(ctx context.Context) error {
	if d.shared.mem == nil {
		return nil
	}
	if d.shared.refused = d.export(ctx); d.shared.refused != nil {
		if ctx.Err() != nil || recovery.Replaceable(d.shared.refused) {
			return d.shared.refused
		}
		d.warnThroughHost(d.shared.refused)
	}
	return d.route()
}

func (d *Device) export(ctx context.Context) error {
	placed, ok := d.Backend.(interface{ Placement() sdk.Placement })
	mem, err := d.shared.mem.Export(ok && placed.Placement().InProcess)
	if err != nil {
		return err
	}
	d.shared.arena = &sdk.Arena{ID: d.Memory.Arena.ID + 1, Name: "gradients on the device", Device: mem}
	if err := d.Backend.Attach(ctx, d.shared.arena); err != nil {
		return err
	}
	return d.shared.mem.Attached(mem)
}

// route sets where the reducer reduces its buckets.
func (d *Device) route() (err error) {
	if d.shared.mem != nil && d.shared.refused == nil {
		d.reducer.Within(d.Dev, d.shared.mem, d.shared.arena)
		return nil
	}
	if d.staging == nil {
		buckets := make([][]byte, len(d.Memory.Buckets))
		for i, r := range d.Memory.Buckets {
			buckets[i] = d.Memory.Bytes(r)
		}
		if d.staging, err = d.Dev.NewStaging(buckets); err != nil {
			return err
		}
	}
	d.reducer.SetStaging(d.staging)
	return nil
}
