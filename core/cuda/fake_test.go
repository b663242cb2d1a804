package cuda

import (
	"fmt"
	"testing"
	"unsafe"

	"github.com/trainctl/trainctl/core/cuda/driver"
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
	allocs  int
	ran     map[string]int // how often a kernel or a library's function ran
}

const fakeContext, fakeStream = 7, 9

func newFake(t testing.TB) *fake {
	return &fake{t: t, kernels: kernels(t), memory: map[driver.DevicePtr][]byte{}, ran: map[string]int{}}
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

func (f *fake) called(what string, s driver.Stream) {
	if f.current != fakeContext || s != fakeStream {
		f.t.Fatalf("%s in context %d on stream %d", what, f.current, s)
	}
}

// driver is the table of functions.
func (f *fake) driver() *driver.CUDA {
	return &driver.CUDA{
		PrimaryCtxRetain:  func(c *driver.Context, _ driver.Device) error { *c = fakeContext; return nil },
		CtxSetCurrent:     func(c driver.Context) error { f.current = c; return nil },
		StreamCreate:      func(s *driver.Stream, _ uint32) error { *s = fakeStream; return nil },
		StreamSynchronize: func(s driver.Stream) error { f.called("StreamSynchronize", s); return nil },
		MemAlloc: func(p *driver.DevicePtr, n uintptr) error {
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
				f.t.Fatalf("MemFree of %#x, which is no allocation", p)
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
		return &driver.CallError{Call: "cuLaunchKernel", Status: driver.CUResult(719)}
	}
	f.ran[k.name]++
	f.kernels[k.d].launch(driver.CString(k.name), x, y, z, bx, address(params))
	return nil
}

func (f *fake) device() *Device {
	d := must(newDevice(f.driver(), 0, func(d tensor.DType) ([]byte, error) { return []byte{byte(d)}, nil }))
	d.block = emulatedBlock
	return d
}

// enqueue runs what a library's function does.
func (f *fake) enqueue(name string, do func()) {
	f.ran[name]++
	do()
}

// linked is a device that finds the fake libraries too.
func (f *fake) linked() *Device {
	d := f.device()
	d.lib.blas = must(openBlas(newFakeBlas(f).api()))
	d.lib.dnn = must(openDNN(newFakeDNN(f).api(), d.stream))
	return d
}
