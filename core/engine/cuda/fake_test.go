package cuda

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/trainctl/trainctl/core/engine/cuda/driver"
	"github.com/trainctl/trainctl/core/tensor"
)

// fake is a driver whose device memory is this process's and whose kernels are
// the emulated ones: launches run at once, in order.
type fake struct {
	t       testing.TB
	kernels map[tensor.DType]*emulated
	memory  map[driver.DevicePtr][]byte
	names   []functionKey // of function handles
	current driver.Context
	fail    string // the kernel whose launch fails
	full    bool   // there is no memory any more
	clock   float32
	marks   map[driver.Event]float32 // when events were recorded
	allocs  int
	ran     map[string]int // how often a kernel or a library's function ran

	capture  *fakeGraph // what is enqueued goes there
	graphs   map[driver.Graph]*fakeGraph
	execs    map[driver.GraphExec]*fakeGraph
	replays  int
	uncapped string // the kernel that ends a capture
}

// fakeGraph is what was enqueued while it was captured.
type fakeGraph struct {
	work    []func()
	invalid bool
}

const fakeContext, fakeStream = 7, 9

func newFake(t testing.TB) *fake {
	return &fake{t: t, kernels: kernels(t), memory: map[driver.DevicePtr][]byte{}, marks: map[driver.Event]float32{}, ran: map[string]int{}, graphs: map[driver.Graph]*fakeGraph{}, execs: map[driver.GraphExec]*fakeGraph{}}
}

// within checks that a range lies in one live allocation, and gives its bytes.
func (f *fake) within(what string, p driver.DevicePtr, n uintptr) []byte {
	for base, b := range f.memory {
		if p >= base && p+driver.DevicePtr(n) <= base+driver.DevicePtr(len(b)) {
			return b[p-base:][:n]
		}
	}
	f.t.Fatalf("%s: %d bytes at %#x are not allocated", what, n, p)
	return nil
}

// misaligned reports whether the libraries would refuse one of the operands,
// for they were promised multiples of 16 bytes.
func (f *fake) misaligned(operands ...driver.DevicePtr) bool {
	return slices.ContainsFunc(operands, func(p driver.DevicePtr) bool { return !aligned(p) })
}

func (f *fake) called(what string, s driver.Stream) {
	if f.capture != nil && what != "LaunchKernel" && what != "StreamEndCapture" && !strings.HasPrefix(what, "c") {
		f.t.Fatalf("%s while launches are captured", what)
	}
	if f.current != fakeContext || s != fakeStream {
		f.t.Fatalf("%s in context %d on stream %d", what, f.current, s)
	}
}

// driver is the table of functions.
func (f *fake) driver() *driver.CUDA {
	return &driver.CUDA{
		PrimaryCtxRetain: func(c *driver.Context, _ driver.Device) error { *c = fakeContext; return nil },
		CtxSetCurrent:    func(c driver.Context) error { f.current = c; return nil },
		StreamCreate:     func(s *driver.Stream, _ uint32) error { *s = fakeStream; return nil },
		StreamQuery:      func(s driver.Stream) error { f.called("StreamQuery", s); return nil },
		MemHostAlloc: func(p *unsafe.Pointer, n uintptr, _ uint32) error {
			b := tensor.Aligned(int(n))
			*p = unsafe.Pointer(&b[0])
			f.memory[driver.DevicePtr(address(&b[0]))] = b
			return nil
		},
		MemHostGetDevicePointer: func(p *driver.DevicePtr, m unsafe.Pointer, _ uint32) error {
			*p = driver.DevicePtr(address((*byte)(m)))
			return nil
		},
		MemFreeHost: func(m unsafe.Pointer) error {
			delete(f.memory, driver.DevicePtr(address((*byte)(m))))
			return nil
		},
		EventCreate: func(e *driver.Event, _ uint32) error {
			*e = driver.Event(len(f.marks) + 1)
			f.marks[*e] = 0
			return nil
		},
		EventRecord: func(e driver.Event, s driver.Stream) error {
			f.called("EventRecord", s)
			f.marks[e] = f.clock
			return nil
		},
		EventQuery:       func(driver.Event) error { return nil },
		EventElapsedTime: func(ms *float32, from, to driver.Event) error { *ms = f.marks[to] - f.marks[from]; return nil },
		EventDestroy:     func(driver.Event) error { return nil },
		MemGetInfo:       func(free, total *uintptr) error { *free, *total = 0, 1<<30; return nil },
		MemAlloc: func(p *driver.DevicePtr, n uintptr) error {
			if f.full {
				return &driver.CallError{Call: "cuMemAlloc", Status: driver.CUResult(2)}
			}
			b := tensor.Aligned(int(n))
			for i := range b {
				b[i] = 0xff // NaN in every type
			}
			*p = driver.DevicePtr(address(&b[0]))
			f.memory[*p] = b
			f.allocs++
			return nil
		},
		MemFree: func(p driver.DevicePtr) error {
			if f.memory[p] == nil {
				f.t.Fatalf("MemFree of %#x, which is not an allocation", p)
			}
			delete(f.memory, p)
			return nil
		},
		MemcpyHtoDAsync: func(to driver.DevicePtr, from unsafe.Pointer, n uintptr, s driver.Stream) error {
			f.called("MemcpyHtoDAsync", s)
			copy(f.within("MemcpyHtoDAsync", to, n), unsafe.Slice((*byte)(from), n))
			return nil
		},
		MemcpyDtoHAsync: func(to unsafe.Pointer, from driver.DevicePtr, n uintptr, s driver.Stream) error {
			f.called("MemcpyDtoHAsync", s)
			copy(unsafe.Slice((*byte)(to), n), f.within("MemcpyDtoHAsync", from, n))
			return nil
		},
		MemcpyDtoDAsync: func(to, from driver.DevicePtr, n uintptr, s driver.Stream) error {
			f.called("MemcpyDtoDAsync", s)
			copy(f.within("MemcpyDtoDAsync", to, n), f.within("MemcpyDtoDAsync", from, n))
			return nil
		},
		MemsetD8Async: func(to driver.DevicePtr, v uint8, n uintptr, s driver.Stream) error {
			f.called("MemsetD8Async", s)
			for i, b := 0, f.within("MemsetD8Async", to, n); i < len(b); i++ {
				b[i] = v
			}
			return nil
		},
		ModuleLoadData:    func(m *driver.Module, image unsafe.Pointer) error { *m = driver.Module(*(*byte)(image)); return nil },
		ModuleGetFunction: f.function,
		LaunchKernel:      f.launch,
	}
}

func (f *fake) function(fn *driver.Function, m driver.Module, name *byte) error {
	d := tensor.DType(m)
	if f.kernels[d].has(name) != 0 {
		return fmt.Errorf("no kernel %s", driver.GoString(name))
	}
	f.names = append(f.names, functionKey{d, driver.GoString(name)})
	*fn = driver.Function(len(f.names))
	return nil
}

func (f *fake) launch(fn driver.Function, x, y, z, bx, by, bz, shared uint32, s driver.Stream, params, _ *unsafe.Pointer) error {
	f.called("LaunchKernel", s)
	k := f.names[fn-1]
	if x == 0 || y == 0 || z != 1 || bx != emulatedBlock || by != 1 || bz != 1 || shared != 0 || y > 65535 {
		f.t.Fatalf("%s on a grid of %d×%d×%d blocks of %d×%d×%d threads", k.name, x, y, z, bx, by, bz)
	}
	if k.name == f.fail {
		return &driver.CallError{Call: "cuLaunchKernel", Status: driver.CUResult(701)}
	}
	if k.name == f.uncapped && f.capture != nil {
		f.capture.invalid = true
		return &driver.CallError{Call: "cuLaunchKernel", Status: driver.CUResult(901)}
	}
	e := f.kernels[k.d]
	at := address(params)
	if f.capture != nil {
		at = e.Keep(driver.CString(k.name), at) // as the driver does; never freed, tests are short
	}
	f.enqueue(k.name, func() { e.launch(driver.CString(k.name), x, y, z, bx, at) })
	return nil
}

// captures are the functions of the table that make and run graphs.
func (f *fake) captures(c *driver.CUDA) *driver.CUDA {
	c.StreamBeginCapture = func(s driver.Stream, mode int32) error {
		f.called("StreamBeginCapture", s)
		if f.capture != nil || mode != driver.CaptureThreadLocal {
			f.t.Fatalf("a capture of mode %d within another", mode)
		}
		f.capture = &fakeGraph{}
		return nil
	}
	c.StreamEndCapture = func(s driver.Stream, g *driver.Graph) error {
		f.called("StreamEndCapture", s)
		done := f.capture
		f.capture = nil
		if done.invalid {
			return &driver.CallError{Call: "cuStreamEndCapture", Status: driver.CUResult(901)}
		}
		*g = driver.Graph(len(f.graphs) + len(f.execs) + 1)
		f.graphs[*g] = done
		return nil
	}
	c.GraphInstantiateWithFlags = func(x *driver.GraphExec, g driver.Graph, _ uint64) error {
		*x = driver.GraphExec(1000 + len(f.execs))
		f.execs[*x] = f.graphs[g]
		return nil
	}
	c.GraphDestroy = func(g driver.Graph) error { return drop(f, f.graphs, g) }
	c.GraphExecDestroy = func(x driver.GraphExec) error { return drop(f, f.execs, x) }
	c.GraphLaunch = func(x driver.GraphExec, s driver.Stream) error {
		f.called("GraphLaunch", s)
		f.replays++
		for _, w := range f.execs[x].work {
			w()
		}
		return nil
	}
	return c
}

func (f *fake) device() *Device {
	d := must(newDevice(f.captures(f.driver()), 0, func(d tensor.DType) ([]byte, error) { return []byte{byte(d)}, nil }))
	d.block = emulatedBlock
	return d
}

// enqueue runs what a kernel or a library's function does, or records it.
func (f *fake) enqueue(name string, do func()) {
	run := func() {
		f.ran[name]++
		do()
	}
	if f.capture != nil {
		f.capture.work = append(f.capture.work, run)
		return
	}
	run()
}

// linked is a device that finds the fake libraries too.
func (f *fake) linked() *Device {
	d := f.device()
	d.lib.blas = must(openBlas(newFakeBlas(f).api()))
	d.lib.dnn = must(openDNN(newFakeDNN(f).api(), d.stream))
	return d
}
