package cuda

import (
	"cmp"
	"errors"
	"fmt"
	"os"

	"github.com/trainctl/trainctl/core/base/dl"
	"github.com/trainctl/trainctl/core/engine/cuda/driver"
	"github.com/trainctl/trainctl/core/engine/cuda/gpu"
	"github.com/trainctl/trainctl/core/engine/cuda/kernels"
	"github.com/trainctl/trainctl/core/engine/cuda/library"
	"github.com/trainctl/trainctl/core/engine/cuda/memory"
	"github.com/trainctl/trainctl/core/engine/cuda/ops"
	"github.com/trainctl/trainctl/core/engine/cuda/optimizer"
	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/engine/plan"
	"github.com/trainctl/trainctl/core/tensor"
)

// Device is one GPU, on which plans run. Programs over it use one stream, one
// after the other; running two at a time is a mistake.
type Device struct {
	gpu *gpu.GPU
	lib *library.Libraries
	mem *memory.Residency
}

// Watch bounds waits for a GPU; see [gpu.Watch].
type Watch = gpu.Watch

// Open makes the GPU of that ordinal ready, with kernels remembered in the folder
// cache ("" for nowhere). The error names what is missing and how to install it.
func Open(ordinal int, cache string) (*Device, error) {
	cu, err := driver.OpenCUDA(dl.System())
	if err != nil {
		return nil, err
	}
	rtc, err := driver.OpenNVRTC(dl.System())
	if err != nil {
		return nil, err
	}
	if err := cu.Init(0); err != nil {
		return nil, cu.Refused(0, os.Getenv, err)
	}
	var dev driver.Device
	var major, minor int32
	if err := errors.Join(cu.DeviceGet(&dev, int32(ordinal)),
		cu.DeviceGetAttribute(&major, driver.AttrComputeCapabilityMajor, dev),
		cu.DeviceGetAttribute(&minor, driver.AttrComputeCapabilityMinor, dev)); err != nil {
		return nil, fmt.Errorf("cuda: device %d: %w", ordinal, err)
	}
	c := &kernels.Compiler{RTC: rtc, Arch: kernels.Target(rtc, 10*major+minor), Dir: cache}
	g, err := gpu.New(cu, dev, kernels.Block, func(d tensor.DType) ([]byte, error) { return c.Image(kernels.Source(d, kernels.Block)) })
	if err != nil {
		return nil, err
	}
	d := newDevice(g)
	d.lib.Open(dl.System())
	return d, nil
}

// newDevice is a device without libraries.
func newDevice(g *gpu.GPU) *Device {
	return &Device{gpu: g, lib: library.New(g), mem: memory.New(g)}
}

// Name is "cuda".
func (*Device) Name() string { return "cuda" }

// Operations lists the steps that GPUs run, sorted.
func Operations() []graph.Op { return ops.Operations() }

// Watch sets how long the GPU may take, and starts to watch calls of the driver that
// do not return. It is called once, and best before anything is bound.
func (d *Device) Watch(w Watch) { d.gpu.Watch(w) }

// Over is closed when the device is lost; Lost then returns the reason, a *LostError.
func (d *Device) Over() <-chan struct{} { return d.gpu.Over() }

// Lost is a *LostError once the device is lost, nil before.
func (d *Device) Lost() error { return d.gpu.Lost() }

// Missing lists the libraries that the device does not use, or in which convolutions
// of the programs bound so far, and why; nil if it has all. It computes the same,
// slowly.
func (d *Device) Missing() error { return d.lib.Missing() }

// AllowTF32 lets products and convolutions of float32 numbers be made of their upper 11 bits by
// tensor cores, in programs that are bound from now on. They are not by default.
func (d *Device) AllowTF32(on bool) { d.lib.AllowTF32(on) }

// Repeatable sets whether equal runs must give equal bits in programs that are bound
// from now on, as they must by default; see [library.Libraries.Repeatable].
func (d *Device) Repeatable(on bool) { d.lib.Repeatable(on) }

// Close releases the device. Close all its programs first. A device that is lost, or
// whose driver does not come back, is left behind: what it holds goes with the
// process.
func (d *Device) Close() error {
	return d.gpu.Close(func() error { return cmp.Or(d.mem.Close(), d.lib.Close()) })
}

// What follows implements [plan.Resident].

// Mirror makes the host's memory resident.
func (d *Device) Mirror(mem []byte) (release func() error, note string, err error) {
	return d.mem.Mirror(mem)
}

// MirrorShared makes the host's memory resident where a backend can map the copy.
func (d *Device) MirrorShared(mem []byte) (plan.Shared, string, error) {
	return d.mem.MirrorShared(mem)
}

// Upload copies parts of resident memory to the device, and waits.
func (d *Device) Upload(parts ...[]byte) error { return d.mem.Upload(parts...) }

// Download copies parts of resident memory to the host, and waits.
func (d *Device) Download(parts ...[]byte) error { return d.mem.Download(parts...) }

// Clear zeroes the copy of a part.
func (d *Device) Clear(part []byte) error { return d.mem.Clear(part) }

// Scale multiplies the copy of a tensor.
func (d *Device) Scale(t tensor.Tensor, f float64) error { return d.mem.Scale(t, f) }

// Updater does the arithmetic of an optimizer.
func (d *Device) Updater(rule plan.Rule, slots []plan.Slot) (plan.Updater, error) {
	return optimizer.New(d.gpu, d.mem, rule, slots)
}

// Stage copies gradient buckets between device and host.
func (d *Device) NewStaging(buckets [][]byte) (plan.Staging, error) { return d.mem.NewStaging(buckets) }

// Pin page-locks host memory, so that copies overlap with kernels.
func (d *Device) Pin(mem []byte) (unpin func() error, note string) { return d.mem.Pin(mem) }

// Prefetch starts to copy the batch of the next run.
func (d *Device) Prefetch(input, target []byte) error { return d.mem.Prefetch(input, target) }

// WaitPrefetched waits until the batch of the run under way was read.
func (d *Device) WaitPrefetched() error { return d.mem.WaitPrefetched() }

// DropPrefetched drops batches that no run has got yet.
func (d *Device) DropPrefetched() { d.mem.DropPrefetched() }

var _ plan.Resident = (*Device)(nil)
