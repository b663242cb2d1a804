package nccl

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/trainctl/trainctl/core/cuda/driver"
	"github.com/trainctl/trainctl/core/sdk"
)

// device is the rank's GPU: its primary context, a stream, and memory that
// stands in for the rank's while NCCL reduces it. All methods belong to the thread.
type device struct {
	cuda     *driver.CUDA
	id       driver.Device
	uuid     string
	name     string
	retained bool
	stream   driver.Stream
	event    driver.Event
	stage    driver.DevicePtr
	size     int // bytes of stage
	pinned   []unsafe.Pointer
}

// stageUnit is what the staging memory grows by.
const stageUnit = 1 << 20

// openDevice takes the GPU of a local rank. Where there are fewer GPUs than
// ranks, several get the same one; Connect decides whether they may.
func openDevice(c *driver.CUDA, localRank int) (*device, error) {
	var n int32
	if err := c.Init(0); err != nil {
		return nil, err
	}
	if err := c.DeviceGetCount(&n); err != nil {
		return nil, err
	}
	if n == 0 {
		return nil, driver.NoDevice
	}
	d := &device{cuda: c}
	return d, d.open(int32(localRank) % n)
}

func (d *device) open(ordinal int32) error {
	c := d.cuda
	if err := c.DeviceGet(&d.id, ordinal); err != nil {
		return err
	}
	var uuid driver.UUID
	var name [256]byte
	if err := errors.Join(c.DeviceGetUUID(&uuid, d.id), c.DeviceGetName(&name[0], int32(len(name)), d.id)); err != nil {
		return err
	}
	d.uuid, d.name = uuid.String(), driver.FromBuffer(name[:])
	var context driver.Context
	if err := c.PrimaryCtxRetain(&context, d.id); err != nil {
		return err
	}
	d.retained = true
	if err := c.CtxSetCurrent(context); err != nil {
		return err
	}
	if err := c.StreamCreate(&d.stream, driver.StreamNonBlocking); err != nil {
		return err
	}
	return c.EventCreate(&d.event, driver.EventDisableTiming)
}

// room makes the staging memory at least n bytes large. What it held is lost.
func (d *device) room(n int) error {
	if n <= d.size {
		return nil
	}
	if err := d.free(); err != nil {
		return err
	}
	n = (n + stageUnit - 1) / stageUnit * stageUnit
	if err := d.cuda.MemAlloc(&d.stage, uintptr(n)); err != nil {
		return fmt.Errorf("staging memory of %d MiB on %s: %w", n>>20, d.name, err)
	}
	d.size = n
	return nil
}

func (d *device) free() error {
	if d.size == 0 {
		return nil
	}
	d.size = 0
	return d.cuda.MemFree(d.stage)
}

// pin makes copies from and to an arena direct. A refusal costs speed alone.
func (d *device) pin(a *sdk.Arena) error {
	b := a.Bytes()
	if len(b) == 0 {
		return nil
	}
	p := unsafe.Pointer(unsafe.SliceData(b))
	if err := d.cuda.MemHostRegister(p, uintptr(len(b)), driver.HostPortable); err != nil {
		return err
	}
	d.pinned = append(d.pinned, p)
	return nil
}

// in copies part of a buffer to its place in the staging memory, on the stream.
func (d *device) in(buf []byte, s span) error {
	if s.empty() {
		return nil
	}
	return d.cuda.MemcpyHtoDAsync(d.stage+driver.DevicePtr(s.from), unsafe.Pointer(&buf[s.from]), uintptr(s.to-s.from), d.stream)
}

// out copies part of the staging memory back, at once: the stream must have
// come past what wrote it.
func (d *device) out(buf []byte, s span) error {
	if s.empty() {
		return nil
	}
	return d.cuda.MemcpyDtoH(unsafe.Pointer(&buf[s.from]), d.stage+driver.DevicePtr(s.from), uintptr(s.to-s.from))
}

// close gives back what the device was asked for. No work may be running on it.
func (d *device) close() error {
	errs := []error{d.free()}
	for _, p := range d.pinned {
		errs = append(errs, d.cuda.MemHostUnregister(p))
	}
	if d.event != 0 {
		errs = append(errs, d.cuda.EventDestroy(d.event))
	}
	if d.stream != 0 {
		errs = append(errs, d.cuda.StreamDestroy(d.stream))
	}
	if d.retained {
		errs = append(errs, d.cuda.PrimaryCtxRelease(d.id))
	}
	return errors.Join(errs...)
}

// span is a part of a buffer, in bytes.
type span struct{ from, to int }

func (s span) empty() bool { return s.from == s.to }
