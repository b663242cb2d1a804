package train

import (
	"context"
	"errors"

	"github.com/trainctl/trainctl/core/engine/kernel/reduce"
	"github.com/trainctl/trainctl/core/engine/optim"
	"github.com/trainctl/trainctl/core/engine/plan"
	"github.com/trainctl/trainctl/core/plugin/host"
	"github.com/trainctl/trainctl/core/report/event"
	"github.com/trainctl/trainctl/core/tensor"
	"github.com/trainctl/trainctl/core/train/ddp"
)

// deviceMemory is what a rank has in the memory of its device: a copy of the
// arena's gradients, weights and buffers, of the optimizer's state and of master
// weights. The copies stay there from step to step. While ranks broadcast weights the
// host's bytes count; later they are brought up to date where they are read: for a
// checkpoint, a broadcast of buffers, the hash at the end.
//
// For a device that computes in the host's memory all methods do nothing.
type deviceMemory struct {
	dev     plan.Resident // nil: none
	memory  *memory
	backend host.Collectives
	events  *event.Bus

	reducer   *ddp.Reducer
	optimizer *optim.Optimizer

	shared  sharedCopy
	staging plan.Staging // of buckets that are reduced in the host's memory
	release func() error // of the copy
	unpin   func() error // of the batches
	part    [1][]byte    // a list of one, for calls in every step
	err     error        // the first of what could not return it
}

// open creates the copy of the arena on the device, before anything is bound to it. If
// share is true and the device supports it, the backend can map the copy.
func (d *deviceMemory) open(dev plan.Resident, share, compressed bool) error {
	end := d.memory.all.Offset + d.memory.all.Size
	note, err := d.copyArena(dev, d.memory.arena.Bytes()[:end:end], share, compressed)
	if err != nil {
		return err
	}
	d.warnSlow(note)
	d.dev = dev
	return nil
}

// warnSlow says what makes copies or computing slower than they could be.
func (d *deviceMemory) warnSlow(note string) {
	if note != "" {
		d.events.Emit(&event.Warning{Source: "device", Message: note})
	}
}

// connect makes gradients and optimizer state of a new reducer and optimizer live on the device.
func (d *deviceMemory) connect(r *ddp.Reducer, o *optim.Optimizer) error {
	d.reducer, d.optimizer = r, o
	if d.dev == nil {
		return nil
	}
	if err := d.closeStage(); err != nil {
		return err
	}
	if err := d.route(); err != nil {
		return err
	}
	return o.Move(d.dev)
}

func (d *deviceMemory) closeStage() (err error) {
	if d.staging != nil {
		err = d.staging.Close()
		d.staging = nil
	}
	return err
}

// pin lets the device read batches where the data set writes them.
func (d *deviceMemory) pin(batches []byte) {
	if d.dev == nil {
		return
	}
	var note string
	d.unpin, note = d.dev.Pin(batches)
	d.warnSlow(note)
}

// close frees copies and pinned memory, which must not be unmapped before. The
// programs are closed before; a backend that shares the copy is closed here.
func (d *deviceMemory) close() error {
	if d.dev == nil {
		return nil
	}
	err := d.closeStage()
	if d.optimizer != nil {
		err = errors.Join(err, d.optimizer.Return())
	}
	if d.unpin != nil {
		err = errors.Join(err, d.unpin())
	}
	if d.shared.mem != nil { // memory that a backend maps must not be freed
		err = errors.Join(err, d.backend.Close(context.Background()))
	}
	err = errors.Join(err, d.release())
	d.dev = nil
	return err
}

// upload makes the device's model and optimizer what the host's are.
func (d *deviceMemory) upload() error {
	if d.dev == nil {
		return nil
	}
	return errors.Join(d.dev.Upload(d.memory.bytes(d.memory.all)), d.optimizer.Store())
}

// download copies model and optimizer state to the host.
func (d *deviceMemory) download() error {
	if d.dev == nil {
		return nil
	}
	return errors.Join(d.dev.Download(d.memory.bytes(d.memory.all)), d.optimizer.Fetch())
}

// downloadBuffers copies the buffers to the host, uploadBuffers copies them back.
func (d *deviceMemory) downloadBuffers() error {
	if d.dev == nil {
		return nil
	}
	return d.dev.Download(d.list(d.memory.buffers)...)
}

func (d *deviceMemory) uploadBuffers() error {
	if d.dev == nil {
		return nil
	}
	return d.dev.Upload(d.list(d.memory.buffers)...)
}

func (d *deviceMemory) list(r ddp.Region) [][]byte {
	d.part[0] = d.memory.bytes(r)
	return d.part[:]
}

// downloadGradients copies all gradients to the host.
func (d *deviceMemory) downloadGradients() error {
	if d.dev == nil {
		return nil
	}
	var parts [][]byte
	for _, r := range d.memory.buckets {
		parts = append(parts, d.memory.bytes(r))
	}
	return d.dev.Download(parts...)
}

// wait returns when the device reads or writes nothing of the host any more.
func (d *deviceMemory) wait() error {
	if d.dev == nil {
		return nil
	}
	return d.dev.Download()
}

// clear and scale change a gradient where it lies.
func (d *deviceMemory) clear(g tensor.Tensor) {
	if d.dev == nil {
		clear(g.Data)
	} else {
		d.fail(d.dev.Clear(g.Data))
	}
}

func (d *deviceMemory) scale(g tensor.Tensor, f float64) {
	if d.dev == nil {
		reduce.ScaleBytes(g.DType, g.Data, f)
	} else {
		d.fail(d.dev.Scale(g, f))
	}
}

// fail remembers the first error of what cannot return it; the next step does.
func (d *deviceMemory) fail(err error) {
	if d.err == nil {
		d.err = err
	}
}

// exchange orders what layers exchange behind the buckets that are complete, as
// a device does that computes them before it goes on.
func (d *deviceMemory) exchange(x plan.Exchange) plan.Exchange {
	if d.dev == nil || x == nil {
		return x
	}
	return behindBuckets{d, x}
}

type behindBuckets struct {
	d *deviceMemory
	x plan.Exchange
}

func (b behindBuckets) Gather(own []float64) ([]float64, error) {
	if err := b.d.reducer.Arrive(true); err != nil {
		return nil, err
	}
	return b.x.Gather(own)
}

func (b behindBuckets) Sum(v []float64) error {
	if err := b.d.reducer.Arrive(true); err != nil {
		return err
	}
	return b.x.Sum(v)
}

// warnMissing says what makes computing slower than it could be: a library that
// the device has a substitute for.
func warnMissing(dev plan.Device, events *event.Bus) {
	if d, ok := dev.(interface{ Missing() error }); ok {
		if err := d.Missing(); err != nil {
			events.Emit(&event.Warning{Source: "device", Message: err.Error()})
		}
	}
}
