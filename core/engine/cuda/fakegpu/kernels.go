package fakegpu

import (
	"regexp"
	"runtime"
	"sync"
	"testing"
	"unsafe"

	"golang.org/x/sync/errgroup"

	"github.com/trainctl/trainctl/core/base/dl"
	"github.com/trainctl/trainctl/core/engine/cuda/cudatest"
	"github.com/trainctl/trainctl/core/engine/cuda/driver"
	"github.com/trainctl/trainctl/core/engine/cuda/kernels"
	"github.com/trainctl/trainctl/core/tensor"
)

// Block is the threads of a block: each costs a coroutine, and 64 are two warps.
const Block = 64

// Types are the element types that there are kernels for.
var Types = []tensor.DType{tensor.F32, tensor.F64, tensor.F16, tensor.BF16}

// emulated is the kernels of one element type, compiled for the processor.
type emulated struct {
	launch func(name *byte, gx, gy, gz, threads uint32, params uintptr) int32
	has    func(name *byte) int32
	Keep   func(name *byte, params uintptr) uintptr `dl:"emulator_keep"` // a copy of parameters
	Free   func(kept uintptr) int32                 `dl:"emulator_free"`
}

// processor is for one launch at a time: the emulated threads' state is global.
var processor sync.Mutex

var emulator = sync.OnceValues(func() (map[tensor.DType]*emulated, error) {
	rtc, err := driver.OpenNVRTC(finder)
	if err != nil {
		return nil, err
	}
	var g errgroup.Group
	g.SetLimit(2)
	images := make([][]byte, len(Types))
	for i, d := range Types {
		g.Go(func() (err error) {
			images[i], err = (&kernels.Compiler{RTC: rtc, Arch: "sm_90"}).Image(kernels.Source(d, Block))
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	all := map[tensor.DType]*emulated{}
	for i, d := range Types {
		if all[d], err = open(driver.FromBuffer(images[i])); err != nil {
			return nil, err
		}
	}
	return all, nil
})

func open(library string) (*emulated, error) {
	lib, err := dl.Open(library)
	if err != nil {
		return nil, err
	}
	launch, has := lib.Symbol("emulator_launch"), lib.Symbol("emulator_has")
	k := &emulated{
		launch: func(name *byte, gx, gy, gz, threads uint32, params uintptr) int32 {
			defer runtime.KeepAlive(name)
			return dl.Call(launch, 6, dl.Words{address(name), uintptr(gx), uintptr(gy), uintptr(gz), uintptr(threads), params})
		},
		has: func(name *byte) int32 {
			defer runtime.KeepAlive(name)
			return dl.Call(has, 1, dl.Words{address(name)})
		},
	}
	_, err = dl.Bind(lib, k, nil)
	return k, err
}

// finder finds the fake NVRTC; Computing sets it before emulator asks.
var finder *dl.Finder

// Computing is a machine with one GPU that computes: its kernels are those of
// core/engine/cuda/kernels, compiled for the processor, in blocks of [Block]
// threads. Mistakes end the test, which is skipped where there is no compiler.
func Computing(t testing.TB) *Machine {
	t.Helper()
	finder = cudatest.Finder(t)
	k, err := emulator()
	if err != nil {
		t.Fatal(err)
	}
	m := New(1)
	m.t, m.kernels = t, k
	return m
}

// Image is the program of one element type, as a computing machine loads it.
func Image(d tensor.DType) ([]byte, error) { return []byte{byte(d)}, nil }

var kernelName = regexp.MustCompile(`(?m)^KERNEL (\w+)\(`)

// Lacking are the kernels in a source that were not compiled for the processor.
func (m *Machine) Lacking(d tensor.DType, source string) (names []string) {
	for _, found := range kernelName.FindAllStringSubmatch(source, -1) {
		if m.kernels[d].has(driver.CString(found[1])) != 0 {
			names = append(names, found[1])
		}
	}
	return names
}

// function is a kernel of a module.
type function struct {
	d    tensor.DType
	name string
}

func (p *Process) fillKernels(c *driver.CUDA) {
	m := p.m
	c.ModuleLoadData = func(h *driver.Module, image unsafe.Pointer) error {
		*h = driver.Module(*(*byte)(image))
		return nil
	}
	c.ModuleUnload = func(driver.Module) error { return nil }
	c.ModuleGetFunction = func(f *driver.Function, h driver.Module, name *byte) error {
		return m.fails("cuModuleGetFunction", func() driver.CUResult {
			k := m.kernels[tensor.DType(h)]
			if k == nil || k.has(name) != 0 {
				return driver.NotFound
			}
			m.functions = append(m.functions, function{tensor.DType(h), driver.GoString(name)})
			*f = driver.Function(len(m.functions))
			return success
		})
	}
	c.LaunchKernel = func(f driver.Function, x, y, z, bx, by, bz, shared uint32, s driver.Stream, params, _ *unsafe.Pointer) error {
		return m.fails("cuLaunchKernel", func() driver.CUResult {
			if f < 1 || int(f) > len(m.functions) {
				return driver.InvalidHandle
			}
			k := m.functions[f-1]
			if x == 0 || y == 0 || z != 1 || bx != Block || by != 1 || bz != 1 || shared != 0 || y > 65535 {
				m.mistake("%s on a grid of %d×%d×%d blocks of %d×%d×%d threads", k.name, x, y, z, bx, by, bz)
				return driver.InvalidValue
			}
			if k.name == m.failing {
				return launchOutOfResources
			}
			e, name := m.kernels[k.d], driver.CString(k.name)
			at := e.Keep(name, address(params)) // as the driver does
			runtime.KeepAlive(params)
			return p.compute(k.name, s, func() {
				processor.Lock()
				defer processor.Unlock()
				e.launch(name, x, y, z, bx, at)
			}, func() { e.Free(at) })
		})
	}
}

const launchOutOfResources driver.CUResult = 701

// Fail makes every launch of a kernel fail from now on; "" makes all succeed.
func (m *Machine) Fail(kernel string) { m.locked(func() { m.failing = kernel }) }

// Ran tells how often kernels and functions of libraries ran, by name.
func (m *Machine) Ran(name string) (n int) {
	m.locked(func() { n = m.ran[name] })
	return n
}

// EachRan is Ran for all that did.
func (m *Machine) EachRan(f func(name string, times int)) {
	m.locked(func() {
		for name, n := range m.ran {
			f(name, n)
		}
	})
}

func address[T any](p *T) uintptr { return uintptr(unsafe.Pointer(p)) }
