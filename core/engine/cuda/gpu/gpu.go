package gpu

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync/atomic"
	"unsafe"

	"github.com/trainctl/trainctl/core/engine/cuda/driver"
	"github.com/trainctl/trainctl/core/tensor"
)

// GPU is one device: its context and the stream that programs run on, one at
// a time. Its methods belong to one goroutine at a time, but for those that say otherwise.
type GPU struct {
	CU     *driver.CUDA
	Dev    driver.Device
	Stream driver.Stream
	Block  int // threads of a block: [kernels.Block], less where kernels are emulated

	context   driver.Context
	image     func(d tensor.DType) ([]byte, error)
	modules   map[tensor.DType]driver.Module
	functions map[functionKey]driver.Function

	label string // ordinal and UUID
	watch Watch
	poll  *poll
	leave func() // what Enter returns; made once, because a closure costs memory

	calls  atomic.Uint64 // of the driver, those that are watched
	inside atomic.Int32  // threads that are within it
	lost   atomic.Pointer[LostError]
	over   chan struct{} // closed when it is lost
	closed chan struct{}
}

type functionKey struct {
	d    tensor.DType
	name string
}

// New opens a device. image compiles the kernels for one element type when one of them
// is first asked for, for blocks of that many threads.
func New(cu *driver.CUDA, dev driver.Device, block int, image func(tensor.DType) ([]byte, error)) (*GPU, error) {
	g := &GPU{CU: cu, Dev: dev, Block: block, image: image, modules: map[tensor.DType]driver.Module{}, functions: map[functionKey]driver.Function{}}
	g.label, g.poll, g.over, g.closed = nameOf(cu, dev), newPoll(cu), make(chan struct{}), make(chan struct{})
	g.leave = func() {
		g.inside.Add(-1)
		runtime.UnlockOSThread()
	}
	if err := cu.PrimaryCtxRetain(&g.context, dev); err != nil {
		return nil, fmt.Errorf("cuda: %w", cu.Refused(dev, os.Getenv, err))
	}
	defer g.Enter()()
	if err := cu.StreamCreate(&g.Stream, driver.StreamNonBlocking); err != nil {
		return nil, errors.Join(fmt.Errorf("cuda: %w", err), cu.PrimaryCtxRelease(dev))
	}
	return g, nil
}

// Busy reports that calls of the driver and of libraries still return, in work that
// consists of many between one Enter and its end.
func (g *GPU) Busy() { g.calls.Add(1) }

// Enter makes the device's context current on this thread until the returned function runs.
func (g *GPU) Enter() func() {
	runtime.LockOSThread()
	g.inside.Add(1)
	g.calls.Add(1)
	if err := g.CU.CtxSetCurrent(g.context); err != nil && g.Lost() == nil {
		if _, meaning := driver.Fault(err); meaning == "" {
			panic("cuda: " + err.Error()) // a context that was retained is valid
		}
		_ = g.Check(err, Doing("the beginning of a call")) // which asks whether the device is lost
	}
	return g.leave
}

// Within runs f in the device's context, unless the device is lost.
func (g *GPU) Within(f func() error) error {
	if err := g.Lost(); err != nil {
		return err
	}
	defer g.Enter()()
	return f()
}

// Function is a kernel for one element type, compiled when it is first asked for.
func (g *GPU) Function(t tensor.DType, name string) (driver.Function, error) {
	key := functionKey{t, name}
	if f, ok := g.functions[key]; ok {
		return f, nil
	}
	m, ok := g.modules[t]
	if !ok {
		g.inside.Add(-1) // to compile may take long, and is not the driver's
		image, err := g.image(t)
		g.inside.Add(1)
		if err != nil {
			return 0, err
		}
		if err := g.CU.ModuleLoadData(&m, unsafe.Pointer(unsafe.SliceData(image))); err != nil {
			return 0, err
		}
		g.modules[t] = m
	}
	var f driver.Function
	if err := g.CU.ModuleGetFunction(&f, m, driver.CString(name)); err != nil {
		return 0, fmt.Errorf("kernel %s: %w", name, err)
	}
	g.functions[key] = f
	return f, nil
}

// Launch enqueues one kernel for element type t on blocks of g.Block threads.
func (g *GPU) Launch(t tensor.DType, name string, blocks int, params *unsafe.Pointer) error {
	f, err := g.Function(t, name)
	if err != nil {
		return g.Check(err, Doing(name))
	}
	return g.Check(g.CU.LaunchKernel(f, uint32(blocks), 1, 1, uint32(g.Block), 1, 1, 0, g.Stream, params, nil), Doing(name))
}
