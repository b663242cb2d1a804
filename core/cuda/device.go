package cuda

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"github.com/trainctl/trainctl/core/cuda/dl"
	"github.com/trainctl/trainctl/core/cuda/driver"
	"github.com/trainctl/trainctl/core/plan"
	"github.com/trainctl/trainctl/core/tensor"
)

// Device is one GPU. Its programs take turns on one stream; running two at a time is a mistake.
type Device struct {
	cu      *driver.CUDA
	dev     driver.Device
	context driver.Context
	stream  driver.Stream
	image   func(d tensor.DType) ([]byte, error)

	modules   map[tensor.DType]driver.Module
	functions map[functionKey]driver.Function
	mirrors   map[*byte]*mirror
	room      *room
	lib       libraries
	block     int     // threads of a block: less where they are emulated
	spans     []*span // mirrored memory, by address
	feed      feed
}

type functionKey struct {
	d    tensor.DType
	name string
}

// Open makes the GPU of that ordinal ready, with kernels remembered in the
// folder cache ("" for nowhere). The error says what is missing and how to get it.
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
		return nil, err
	}
	var dev driver.Device
	var major, minor int32
	if err := errors.Join(cu.DeviceGet(&dev, int32(ordinal)),
		cu.DeviceGetAttribute(&major, driver.AttrComputeCapabilityMajor, dev),
		cu.DeviceGetAttribute(&minor, driver.AttrComputeCapabilityMinor, dev)); err != nil {
		return nil, fmt.Errorf("cuda: device %d: %w", ordinal, err)
	}
	c := &compiler{rtc: rtc, arch: target(rtc, 10*major+minor), dir: cache}
	d, err := newDevice(cu, dev, func(d tensor.DType) ([]byte, error) { return c.image(source(d, block)) })
	if err == nil {
		d.link(dl.System())
	}
	return d, err
}

func newDevice(cu *driver.CUDA, dev driver.Device, image func(tensor.DType) ([]byte, error)) (*Device, error) {
	d := &Device{cu: cu, dev: dev, image: image, modules: map[tensor.DType]driver.Module{}, functions: map[functionKey]driver.Function{}, mirrors: map[*byte]*mirror{}, block: block}
	if err := cu.PrimaryCtxRetain(&d.context, dev); err != nil {
		return nil, fmt.Errorf("cuda: %w", err)
	}
	defer d.enter()()
	if err := cu.StreamCreate(&d.stream, driver.StreamNonBlocking); err != nil {
		return nil, errors.Join(fmt.Errorf("cuda: %w", err), cu.PrimaryCtxRelease(dev))
	}
	return d, nil
}

// enter makes the device's context current on this thread until the returned function runs.
func (d *Device) enter() func() {
	runtime.LockOSThread()
	if err := d.cu.CtxSetCurrent(d.context); err != nil {
		panic("cuda: " + err.Error()) // a context that was retained is valid
	}
	return runtime.UnlockOSThread
}

// Name is "cuda".
func (*Device) Name() string { return "cuda" }

// function is a kernel for one element type, compiled when it is first asked for.
func (d *Device) function(t tensor.DType, name string) (driver.Function, error) {
	key := functionKey{t, name}
	if f, ok := d.functions[key]; ok {
		return f, nil
	}
	m, ok := d.modules[t]
	if !ok {
		image, err := d.image(t)
		if err != nil {
			return 0, err
		}
		if err := d.cu.ModuleLoadData(&m, unsafe.Pointer(unsafe.SliceData(image))); err != nil {
			return 0, err
		}
		d.modules[t] = m
	}
	var f driver.Function
	if err := d.cu.ModuleGetFunction(&f, m, driver.CString(name)); err != nil {
		return 0, fmt.Errorf("kernel %s: %w", name, err)
	}
	d.functions[key] = f
	return f, nil
}

var _ plan.Device = (*Device)(nil)
