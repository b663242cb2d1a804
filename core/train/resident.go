package train

import (
	"errors"

	"github.com/trainctl/trainctl/core/event"
	"github.com/trainctl/trainctl/core/kernel"
	"github.com/trainctl/trainctl/core/plan"
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
	stage  plan.Stage
	arena  func() error // releases the copy
	inputs func() error // unpins the batches
	err    error
}

// reside gives the arena a copy on the device, before anything is bound to it.
func (t *Trainer) reside() (err error) {
	dev, ok := t.Device.(plan.Resident)
	if !ok {
		return nil
	}
	end := t.memory.all.Offset + t.memory.all.Size
	var note string
	if t.home.arena, note, err = dev.Mirror(t.arena.Bytes()[:end:end]); err != nil {
		return err
	}
	t.slow(note)
	t.home.dev, t.onEnqueued = dev, t.enqueued
	if t.exchange != nil {
		t.exchange = arriving{t, t.exchange}
	}
	return nil
}

// slow says once what makes copies slower than they could be.
func (t *Trainer) slow(note string) {
	if note != "" {
		t.Events.Emit(&event.Warning{Source: "device", Message: note})
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
	buckets := make([][]byte, len(t.memory.buckets))
	for i, r := range t.memory.buckets {
		buckets[i] = t.group.Bytes(r)
	}
	if t.home.stage, err = t.home.dev.Stage(buckets); err != nil {
		return err
	}
	t.reducer.Through(t.home.stage)
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
// not be unmapped before. Nothing can be run after.
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
	return t.home.dev.Download(t.group.Bytes(t.memory.buffers))
}

func (t *Trainer) storeBuffers() error {
	if t.home.dev == nil {
		return nil
	}
	return t.home.dev.Upload(t.group.Bytes(t.memory.buffers))
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
