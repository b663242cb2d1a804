package replica

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

// Device is the state that a rank keeps in the memory of its device: a copy of the arena's
// gradients, weights and buffers, of the optimizer's state and of master weights. The copies stay
// there from step to step. While ranks broadcast weights the host's bytes count; later they are
// brought up to date where they are read: for a checkpoint, a broadcast of buffers, the hash at the
// end.
//
// For a device that computes in the host's memory all methods do nothing.
type Device struct {
	Dev     plan.Resident // nil: none
	Memory  *Memory
	Backend host.Collectives
	Events  *event.Bus

	reducer   *ddp.Reducer
	optimizer *optim.Optimizer

	shared  sharedCopy
	staging plan.Staging // of buckets that are reduced in the host's memory
	release func() error // of the copy
	unpin   func() error // of the batches
	part    [1][]byte    // a list of one, for calls in every step
	Err     error        // the first error of a method that cannot return one
}

// Open creates the copy of the arena on the device, before anything is bound to it. If
// share is true and the device supports it, the backend can map the copy.
func (d *Device) Open(dev plan.Resident, share, compressed bool) error {
	end := d.Memory.All.Offset + d.Memory.All.Size
	note, err := d.copyArena(dev, d.Memory.Arena.Bytes()[:end:end], share, compressed)
	if err != nil {
		return err
	}
	d.warnSlow(note)
	d.Dev = dev
	return nil
}

// warnSlow warns of anything that makes copies or computation slower than they could be.
func (d *Device) warnSlow(note string) {
	if note != "" {
		d.Events.Emit(&event.Warning{Source: "device", Message: note})
	}
}

// Connect makes gradients and optimizer state of a new reducer and optimizer live on the device.
func (d *Device) Connect(r *ddp.Reducer, o *optim.Optimizer) error {
	d.reducer, d.optimizer = r, o
	if d.Dev == nil {
		return nil
	}
	if err := d.closeStage(); err != nil {
		return err
	}
	if err := d.route(); err != nil {
		return err
	}
	return o.Move(d.Dev)
}

func (d *Device) closeStage() (err error) {
	if d.staging != nil {
		err = d.staging.Close()
		d.staging = nil
	}
	return err
}

// Pin lets the device read batches where the data set writes them.
func (d *Device) Pin(batches []byte) {
	if d.Dev == nil {
		return
	}
	var note string
	d.unpin, note = d.Dev.Pin(batches)
	d.warnSlow(note)
}

// Close frees copies and pinned memory, which must not be unmapped before. The
// programs are closed before; a backend that shares the copy is closed here.
func (d *Device) Close() error {
	if d.Dev == nil {
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
		err = errors.Join(err, d.Backend.Close(context.Background()))
	}
	err = errors.Join(err, d.release())
	d.Dev = nil
	return err
}

// Upload copies the model and the optimizer's state to the device.
func (d *Device) Upload() error {
	if d.Dev == nil {
		return nil
	}
	return errors.Join(d.Dev.Upload(d.Memory.Bytes(d.Memory.All)), d.optimizer.Store())
}

// Download copies model and optimizer state to the host.
func (d *Device) Download() error {
	if d.Dev == nil {
		return nil
	}
	return errors.Join(d.Dev.Download(d.Memory.Bytes(d.Memory.All)), d.optimizer.Fetch())
}

// downloadModel copies weights and buffers to the host, uploadModel copies them back.
func (d *Device) downloadModel() error {
	if d.Dev == nil {
		return nil
	}
	return d.Dev.Download(d.list(d.Memory.All)...)
}

func (d *Device) uploadModel() error {
	if d.Dev == nil {
		return nil
	}
	return d.Dev.Upload(d.list(d.Memory.All)...)
}

// downloadBuffers copies the buffers to the host, uploadBuffers copies them back.
func (d *Device) downloadBuffers() error {
	if d.Dev == nil {
		return nil
	}
	return d.Dev.Download(d.list(d.Memory.Buffers)...)
}

func (d *Device) uploadBuffers() error {
	if d.Dev == nil {
		return nil
	}
	return d.Dev.Upload(d.list(d.Memory.Buffers)...)
}

func (d *Device) list(r ddp.Region) [][]byte {
	d.part[0] = d.Memory.Bytes(r)
	return d.part[:]
}

// DownloadGradients copies all gradients to the host.
func (d *Device) DownloadGradients() error {
	if d.Dev == nil {
		return nil
	}
	var parts [][]byte
	for _, r := range d.Memory.Buckets {
		parts = append(parts, d.Memory.Bytes(r))
	}
	return d.Dev.Download(parts...)
}

// Wait returns when the device reads or writes nothing of the host any more.
func (d *Device) Wait() error {
	if d.Dev == nil {
		return nil
	}
	return d.Dev.Download()
}

// Clear zeroes a gradient where it lies.
func (d *Device) Clear(g tensor.Tensor) {
	if d.Dev == nil {
		clear(g.Data)
	} else {
		d.Fail(d.Dev.Clear(g.Data))
	}
}

// Scale multiplies a gradient by f where it lies.
func (d *Device) Scale(g tensor.Tensor, f float64) {
	if d.Dev == nil {
		reduce.ScaleBytes(g.DType, g.Data, f)
	} else {
		d.Fail(d.Dev.Scale(g, f))
	}
}

// Fail remembers the first error of a method that cannot return it; the next step returns it.
func (d *Device) Fail(err error) {
	if d.Err == nil {
		d.Err = err
	}
}

// Exchange orders the layers' exchanges after the buckets that are complete, as on a device that
// computes these before it continues.
func (d *Device) Exchange(x plan.Exchange) plan.Exchange {
	if d.Dev == nil || x == nil {
		return x
	}
	return behindBuckets{d, x}
}

type behindBuckets struct {
	d *Device
	x plan.Exchange
}

// Gather implements plan.Exchange.
func (b behindBuckets) Gather(own []float64) ([]float64, error) {
	if err := b.d.reducer.Arrive(true); err != nil {
		return nil, err
	}
	return b.x.Gather(own)
}

// Sum implements plan.Exchange.
func (b behindBuckets) Sum(v []float64) error {
	if err := b.d.reducer.Arrive(true); err != nil {
		return err
	}
	return b.x.Sum(v)
}

// WarnMissing warns of a missing library that the device replaces with slower code of its own.
func WarnMissing(dev plan.Device, events *event.Bus) {
	if d, ok := dev.(interface{ Missing() error }); ok {
		if err := d.Missing(); err != nil {
			events.Emit(&event.Warning{Source: "device", Message: err.Error()})
		}
	}
}
