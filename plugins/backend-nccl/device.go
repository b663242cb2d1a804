package nccl

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"unsafe"

	"github.com/trainctl/trainctl/core/engine/cuda/driver"
	"github.com/trainctl/trainctl/core/sdk"
)

// device is the rank's GPU: its primary context, staging memory for buffers of the host,
// and the rank's arenas that are mapped. All methods run on the thread.
type device struct {
	cuda     *driver.CUDA
	id       driver.Device
	uuid     string
	bus      string // PCI bus id, which slices of a GPU share
	name     string
	retained bool
	stage    driver.DevicePtr
	size     int // bytes of stage
	pinned   []unsafe.Pointer
	arenas   map[uint32]*mapped
}

// stageUnit is the granularity of the staging memory.
const stageUnit = 1 << 20

// openDevice opens the GPU that the rank computes on, or else that of its local rank.
// With fewer GPUs than ranks, several ranks get the same one; Connect decides whether
// that is allowed.
func openDevice(c *driver.CUDA, uuid string, localRank int) (*device, error) {
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
	d := &device{cuda: c, arenas: map[uint32]*mapped{}}
	if uuid == "" {
		return d, d.open(int32(localRank) % n)
	}
	ordinal, err := find(c, uuid, n)
	if err != nil {
		return nil, err
	}
	return d, d.open(ordinal)
}

// find returns the ordinal of a UUID among the devices that this process sees.
func find(c *driver.CUDA, uuid string, n int32) (int32, error) {
	var here []string
	for i := range n {
		var d driver.Device
		var u driver.UUID
		if err := errors.Join(c.DeviceGet(&d, i), c.DeviceGetUUID(&u, d)); err != nil {
			return 0, err
		}
		if sameDevice(uuid, u.String()) {
			return i, nil
		}
		here = append(here, u.String())
	}
	return 0, fmt.Errorf("the rank's GPU %s is not among those that its backend sees: %s; CUDA_VISIBLE_DEVICES of both must agree", uuid, strings.Join(here, ", "))
}

// sameDevice compares UUIDs without their prefix (GPU- or MIG-), which depends on who
// prints them.
func sameDevice(a, b string) bool { return bareUUID(a) == bareUUID(b) }

func bareUUID(s string) string {
	s = strings.ToLower(s)
	for _, prefix := range []string{"mig-", "gpu-"} {
		s = strings.TrimPrefix(s, prefix)
	}
	return s
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
	d.uuid, d.name, d.bus = uuid.String(), driver.FromBuffer(name[:]), d.place()
	var context driver.Context
	if err := c.PrimaryCtxRetain(&context, d.id); err != nil {
		return c.Refused(d.id, os.Getenv, err)
	}
	d.retained = true
	return c.CtxSetCurrent(context)
}

// place returns the PCI bus id of the device; "" if it is unknown.
func (d *device) place() string {
	var id [32]byte
	if err := d.cuda.DeviceGetPCIBusID(&id[0], int32(len(id)), d.id); err != nil {
		return ""
	}
	return driver.FromBuffer(id[:])
}

// room makes the staging memory at least n bytes large. Its content is lost.
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

// pin pins an arena, which makes copies faster. In the rank's process the rank has
// pinned it already.
func (d *device) pin(a *sdk.Arena) error {
	b := a.Bytes()
	if len(b) == 0 {
		return nil
	}
	p := unsafe.Pointer(unsafe.SliceData(b))
	err := d.cuda.MemHostRegister(p, uintptr(len(b)), driver.HostPortable)
	if errors.Is(err, driver.HostMemoryRegistered) {
		return nil
	}
	if err != nil {
		return err
	}
	d.pinned = append(d.pinned, p)
	return nil
}

// in copies part of a buffer to the staging memory, on a stream.
func (d *device) in(buf []byte, s span, on driver.Stream) error {
	if s.empty() {
		return nil
	}
	return d.cuda.MemcpyHtoDAsync(d.stage+driver.DevicePtr(s.from), unsafe.Pointer(&buf[s.from]), uintptr(s.to-s.from), on)
}

// out copies part of the staging memory back, synchronously: the stream must have
// completed the collective.
func (d *device) out(buf []byte, s span) error {
	if s.empty() {
		return nil
	}
	return d.cuda.MemcpyDtoH(unsafe.Pointer(&buf[s.from]), d.stage+driver.DevicePtr(s.from), uintptr(s.to-s.from))
}

// close frees everything. No work may be running on the device.
func (d *device) close() error {
	errs := []error{d.free()}
	for _, p := range d.pinned {
		errs = append(errs, d.cuda.MemHostUnregister(p))
	}
	for _, a := range d.arenas {
		errs = append(errs, a.close())
	}
	if d.retained {
		errs = append(errs, d.cuda.PrimaryCtxRelease(d.id))
	}
	return errors.Join(errs...)
}

// span is a part of a buffer, in bytes.
type span struct{ from, to int }

func (s span) empty() bool { return s.from == s.to }
