package train

import (
	"context"
	"errors"

	"github.com/trainctl/trainctl/core/engine/plan"
	"github.com/trainctl/trainctl/core/report/event"
	"github.com/trainctl/trainctl/core/sdk"
)

// Gradients on a device take one of two ways. A backend that can reach the
// device's memory sums them up where they lie; for any other they are copied to
// the host's arena and back, a bucket at a time.

// copyTo gives the arena its copy on the device, in memory that can be lent if that is of use.
func (t *Trainer) copyTo(dev plan.Resident, mem []byte) (note string, err error) {
	h := &t.home
	if t.World.Size > 1 && !t.EvalOnly && t.Backend.Info().DeviceArena {
		var refused error
		if t.Settings.DDP.Compress != "none" {
			refused = errors.New("ddp.compress works in the host's memory")
		} else if h.lent, note, refused = dev.Lend(mem); refused == nil {
			h.arena = h.lent.Close
			return note, nil
		}
		t.detour(refused)
	}
	h.arena, note, err = dev.Mirror(mem)
	return note, err
}

// detour says once why a backend that could sum up gradients on the device does not.
func (t *Trainer) detour(why error) {
	if t.home.told {
		return
	}
	t.home.told = true
	t.Events.Emit(&event.Warning{Source: "backend", Message: "gradients are reduced by way of the host's memory, not on the device: " + why.Error()})
}

// lend shows the device's memory to a backend that begins. One that will not
// have it finds gradients in the host's; one that breaks over it is an error.
func (t *Trainer) lend(ctx context.Context) error {
	h := &t.home
	if h.lent == nil {
		return nil
	}
	if h.denied = t.show(ctx); h.denied != nil {
		if ctx.Err() != nil || replaceable(h.denied) {
			return h.denied
		}
		t.detour(h.denied)
	}
	return t.route()
}

func (t *Trainer) show(ctx context.Context) error {
	placed, ok := t.Backend.(interface{ Placement() sdk.Placement })
	mem, err := t.home.lent.Export(ok && placed.Placement().InProcess)
	if err != nil {
		return err
	}
	t.home.shared = &sdk.Arena{ID: t.arena.ID + 1, Name: "gradients on the device", Device: mem}
	if err := t.Backend.Attach(ctx, t.home.shared); err != nil {
		return err
	}
	return t.home.lent.Attached(mem)
}

// route sends the reducer's buckets their way.
func (t *Trainer) route() (err error) {
	h := &t.home
	if h.lent != nil && h.denied == nil {
		t.reducer.Within(h.dev, h.lent, h.shared)
		return nil
	}
	if h.stage == nil {
		buckets := make([][]byte, len(t.memory.buckets))
		for i, r := range t.memory.buckets {
			buckets[i] = t.group.Bytes(r)
		}
		if h.stage, err = h.dev.Stage(buckets); err != nil {
			return err
		}
	}
	t.reducer.Through(h.stage)
	return nil
}
