package train

import (
	"context"
	"errors"

	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/plan"
	"github.com/trainctl/trainctl/core/report/event"
	"github.com/trainctl/trainctl/core/sdk"
)

// residence is what a rank keeps in the memory of its device: a copy of the
// arena's gradients, weights and buffers, of the optimizer's state and of master
// copies. There they stay from step to step. The host's bytes count while ranks
// share weights, and are brought up to date where somebody reads them: a
// checkpoint, a broadcast of buffers, the hash at the end.
//
// A device that computes in the host's memory has none: then all of it does nothing.
type residence struct {
	dev    plan.Resident
	lent   plan.Lent    // the copy, which a backend may reduce buckets in; nil: none can
	shared *sdk.Arena   // lent, as the backend knows it
	denied error        // why it does not know it
	told   bool         // that buckets take the way by the host
	stage  plan.Stage   // of buckets that are reduced in the host's memory
	arena  func() error // releases the copy
	inputs func() error // unpins the batches
	part   [1][]byte    // a list of one, for calls in every step
	err    error
}

// reside gives the arena a copy on the device, before anything is bound to it.
func (t *Trainer) reside() (err error) {
	dev, ok := t.Device.(plan.Resident)
	if !ok {
		return nil
	}
	end := t.memory.all.Offset + t.memory.all.Size
	note, err := t.copyTo(dev, t.arena.Bytes()[:end:end])
	if err != nil {
		return err
	}
	t.slow(note)
	t.home.dev, t.onEnqueued = dev, t.enqueued
	if t.exchange != nil {
		t.exchange = arriving{t, t.exchange}
	}
	return nil
}

// slow says what makes copies or computing slower than they could be.
func (t *Trainer) slow(note string) {
	if note != "" {
		t.Events.Emit(&event.Warning{Source: "device", Message: note})
	}
}

// doesWithout says what makes computing slower than it could be: a library that
// the device has a substitute for.
func (t *Trainer) doesWithout() {
	if d, ok := t.Device.(interface{ Missing() error }); ok {
		if err := d.Missing(); err != nil {
			t.slow(err.Error())
		}
	}
}

// moveIn connects what was made anew, reducer and optimizer, with the device.
func (t *Trainer) moveIn() (err error) {
	if t.home.dev == nil {
		return nil
	}
	if err := t.home.close(); err != nil {
		return err
	}
	if err := t.route(); err != nil {
		return err
	}
	return t.optimizer.Move(t.home.dev)
}

// close frees what moveIn made, but for the optimizer's.
func (h *residence) close() (err error) {
	if h.stage != nil {
		err = h.stage.Close()
		h.stage = nil
	}
	return err
}

// Vacate gives the device back: programs, copies, and pinned memory, which must
// not be unmapped before. A backend that has been lent the copy is closed.
// Nothing can be run after.
func (t *Trainer) Vacate() error {
	err := t.programs.close()
	t.programs = programs{}
	if t.home.dev == nil {
		return err
	}
	err = errors.Join(err, t.home.close())
	if t.optimizer != nil {
		err = errors.Join(err, t.optimizer.Return())
	}
	if t.home.inputs != nil {
		err = errors.Join(err, t.home.inputs())
	}
	if t.home.lent != nil { // what a backend maps is not taken away from it
		err = errors.Join(err, t.Backend.Close(context.Background()))
	}
	err = errors.Join(err, t.home.arena())
	t.home.dev = nil
	return err
}

// upload makes the device's model and optimizer what the host's are.
func (t *Trainer) upload() error {
	if t.home.dev == nil {
		return nil
	}
	return errors.Join(t.home.dev.Upload(t.group.Bytes(t.memory.all)), t.optimizer.Store())
}

// download brings model and optimizer to the host.
func (t *Trainer) download() error {
	if t.home.dev == nil {
		return nil
	}
	return errors.Join(t.home.dev.Download(t.group.Bytes(t.memory.all)), t.optimizer.Fetch())
}

// fetchBuffers brings the buffers to the host, storeBuffers takes them back.
func (t *Trainer) fetchBuffers() error {
	if t.home.dev == nil {
		return nil
	}
	return t.home.dev.Download(t.home.list(t.group.Bytes(t.memory.buffers))...)
}

func (t *Trainer) storeBuffers() error {
	if t.home.dev == nil {
		return nil
	}
	return t.home.dev.Upload(t.home.list(t.group.Bytes(t.memory.buffers))...)
}

func (h *residence) list(part []byte) [][]byte {
	h.part[0] = part
	return h.part[:]
}

// fetchGradients brings all gradients to the host.
func (t *Trainer) fetchGradients() error {
	if t.home.dev == nil {
		return nil
	}
	var parts [][]byte
	for _, r := range t.memory.buckets {
		parts = append(parts, t.group.Bytes(r))
	}
	return t.home.dev.Download(parts...)
}

// rest waits until the device reads or writes nothing of the host any more.
func (t *Trainer) rest() error {
	if t.home.dev == nil {
		return nil
	}
	return t.home.dev.Download()
}

// arriving sends buckets that are complete before layers exchange anything, as
// a device does that computes them before it goes on.
type arriving struct {
	t *Trainer
	x plan.Exchange
}

func (a arriving) Gather(mine []float64) ([]float64, error) {
	if err := a.t.reducer.Arrive(true); err != nil {
		return nil, err
	}
	return a.x.Gather(mine)
}

func (a arriving) Sum(v []float64) error {
	if err := a.t.reducer.Arrive(true); err != nil {
		return err
	}
	return a.x.Sum(v)
}

// clearGradient and scaleGradient change a gradient where it lies.
func (t *Trainer) clearGradient(param int) {
	g := t.grads[param]
	if t.home.dev == nil {
		clear(g.Data)
	} else {
		t.home.fail(t.home.dev.Clear(g.Data))
	}
}

func (t *Trainer) scaleGradient(param int, f float64) {
	g := t.grads[param]
	if t.home.dev == nil {
		kernel.ScaleBytes(g.DType, g.Data, f)
	} else {
		t.home.fail(t.home.dev.Scale(g, f))
	}
}

// fail keeps the first error of what cannot return it; the next step does.
func (h *residence) fail(err error) {
	if h.err == nil {
		h.err = err
	}
}
