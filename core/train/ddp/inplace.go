package ddp

import (
	"errors"

	"github.com/trainctl/trainctl/core/engine/plan"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/tensor"
)

// inPlace reduces buckets in the memory of the device on which they are computed. They
// are divided and sent when their last gradient is enqueued, long before it is
// computed.
type inPlace struct {
	dev     plan.Resident
	shared  plan.Shared
	arena   *sdk.Arena      // shared, as the backend knows it
	buckets []tensor.Tensor // the host's memory of which they are copies
	done    []int           // by bucket: the event behind its sum
	sent    []int           // buckets, since Begin, that are not settled
}

// Within makes the reducer reduce buckets in device memory shared with the backend,
// which has the layout of the group's arena. Buckets are sent in their own type. It is
// called again for each backend that shares the memory, with that backend's arena.
func (r *Reducer) Within(dev plan.Resident, shared plan.Shared, arena *sdk.Arena) {
	r.staged.on = false
	if r.device != nil {
		r.device.arena = arena
		return
	}
	r.device = &inPlace{dev: dev, shared: shared, arena: arena, done: make([]int, len(r.buckets)), sent: make([]int, 0, len(r.buckets))}
	for b, at := range r.regions {
		if r.wire[b] != at {
			panic("ddp: a compressed bucket cannot be reduced where it lies")
		}
		mem := r.group.Bytes(at)
		r.device.buckets = append(r.device.buckets, tensor.Of(r.buckets[b].DType, tensor.Shape{r.buckets[b].elems()}, mem))
	}
}

// issue divides a bucket and sends it, after the work that writes it.
func (r *Reducer) issue(b int) {
	d := r.device
	if r.err = d.scale(b, r.codec.pre); r.err != nil {
		return
	}
	var ready int
	if ready, d.done[b], r.err = d.shared.Written(); r.err != nil {
		return
	}
	d.sent = append(d.sent, b)
	r.tickets[b], r.err = r.group.submitIn(d.arena, r.buckets[b].DType, r.regions[b], b, ready, d.done[b])
}

func (d *inPlace) scale(b int, f float64) error {
	if f == 1 {
		return nil
	}
	return d.dev.Scale(d.buckets[b], f)
}

// Settle lets the device continue with the averages that Finish has waited for. Call
// it after a collective that was called after Flush has succeeded: until then sums in
// device memory are not valid, and the device must not wait for one that may never
// come. It does nothing if buckets are reduced in host memory.
func (r *Reducer) Settle() error {
	d := r.device
	if d == nil {
		return nil
	}
	for _, b := range d.sent {
		if err := d.shared.Follow(d.done[b]); err != nil {
			return err
		}
		if err := d.scale(b, r.codec.post); err != nil {
			return err
		}
	}
	d.sent = d.sent[:0]
	return nil
}

// Trial all-reduces n bytes of the buckets' memory as float32, in the way that buckets are sent,
// and returns when the sum is complete. It overwrites these bytes with garbage.
func (r *Reducer) Trial(n int) error {
	at := Region{Size: n}
	if r.device == nil || r.staged.on {
		return r.group.AllReduce(at, sdk.Sum, tensor.F32)
	}
	ready, done, err := r.device.shared.Written()
	if err != nil {
		return err
	}
	ticket, err := r.group.submitIn(r.device.arena, tensor.F32, at, -1, ready, done)
	if err != nil {
		return err
	}
	if err := r.group.wait(ticket, "trial", -1, at); err != nil {
		return err
	}
	return errors.Join(r.device.shared.Follow(done), r.device.dev.Download()) // without parts it waits for the sum
}
