package cuda

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync/atomic"
	"unsafe"

	"github.com/trainctl/trainctl/core/engine/cuda/dl"
	"github.com/trainctl/trainctl/core/engine/cuda/driver"
	"github.com/trainctl/trainctl/core/engine/plan"
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
	scaling   driver.Args

	label string // ordinal and UUID
	watch Watch
	poll  *poll
	leave func() // what enter returns; made once, because a closure costs memory

	calls  atomic.Uint64 // of the driver, as far as somebody looks after them
	inside atomic.Int32  // threads that are within it
	lost   atomic.Pointer[LostError]
	over   chan struct{} // closed when it is lost
	closed chan struct{}
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
		return nil, cu.Refused(0, os.Getenv, err)
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
	d.label, d.poll, d.over, d.closed = nameOf(cu, dev), newPoll(cu), make(chan struct{}), make(chan struct{})
	d.leave = func() {
		d.inside.Add(-1)
		runtime.UnlockOSThread()
	}
	if err := cu.PrimaryCtxRetain(&d.context, dev); err != nil {
		return nil, fmt.Errorf("cuda: %w", cu.Refused(dev, os.Getenv, err))
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
	d.inside.Add(1)
	d.calls.Add(1)
	if err := d.cu.CtxSetCurrent(d.context); err != nil && d.gone() == nil {
		if _, meaning := driver.Fault(err); meaning == "" {
			panic("cuda: " + err.Error()) // a context that was retained is valid
		}
		_ = d.told(err, to("the beginning of a call")) // which asks whether the device is lost
	}
	return d.leave
}

// within runs f in the device's context, unless the device is lost.
func (d *Device) within(f func() error) error {
	if err := d.gone(); err != nil {
		return err
	}
	defer d.enter()()
	return f()
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
		d.inside.Add(-1) // to compile may take long, and is not the driver's
		image, err := d.image(t)
		d.inside.Add(1)
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
