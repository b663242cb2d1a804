package cuda

import (
	"path/filepath"
	"regexp"
	"runtime"
	"sync"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/trainctl/trainctl/core/engine/cuda/cudatest"
	"github.com/trainctl/trainctl/core/engine/cuda/dl"
	"github.com/trainctl/trainctl/core/engine/cuda/driver"
	"github.com/trainctl/trainctl/core/tensor"
)

// emulated is the kernels of one element type, compiled for the processor.
type emulated struct {
	launch func(name *byte, gx, gy, gz, threads uint32, params uintptr) int32
	has    func(name *byte) int32
	Keep   func(name *byte, params uintptr) uintptr `dl:"emulator_keep"` // a copy of parameters
}

var kernelName = regexp.MustCompile(`(?m)^KERNEL (\w+)\(`)

// emulatedBlock is the threads of a block: each costs a coroutine, and 64 are two warps.
const emulatedBlock = 64

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

var types = []tensor.DType{tensor.F32, tensor.F64, tensor.F16, tensor.BF16}

var emulator = sync.OnceValues(func() (map[tensor.DType]*emulated, error) {
	rtc, err := driver.OpenNVRTC(finder)
	if err != nil {
		return nil, err
	}
	var g errgroup.Group
	g.SetLimit(2)
	images := make([][]byte, len(types))
	for i, d := range types {
		g.Go(func() (err error) {
			images[i], err = (&compiler{rtc: rtc, arch: "sm_90"}).image(source(d, emulatedBlock))
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	all := map[tensor.DType]*emulated{}
	for i, d := range types {
		lib, err := dl.Open(driver.FromBuffer(images[i]))
		if err != nil {
			return nil, err
		}
		launch, has := lib.Symbol("emulator_launch"), lib.Symbol("emulator_has")
		all[d] = &emulated{
			launch: func(name *byte, gx, gy, gz, threads uint32, params uintptr) int32 {
				defer runtime.KeepAlive(name)
				return dl.Call(launch, 6, dl.Words{address(name), uintptr(gx), uintptr(gy), uintptr(gz), uintptr(threads), params})
			},
			has: func(name *byte) int32 {
				defer runtime.KeepAlive(name)
				return dl.Call(has, 1, dl.Words{address(name)})
			},
		}
		if _, err := dl.Bind(lib, all[d], nil); err != nil {
			return nil, err
		}
	}
	return all, nil
})

// finder finds the fakes; kernels sets it before emulator asks.
var finder *dl.Finder

// kernels are the emulated ones, for tests that need them.
func kernels(t testing.TB) map[tensor.DType]*emulated {
	t.Helper()
	finder = cudatest.Finder(t)
	k, err := emulator()
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// The kernels compile for architectures of several generations, where NVRTC is installed: it needs no GPU.
func TestKernelsCompile(t *testing.T) {
	rtc, err := driver.OpenNVRTC(dl.System())
	if err != nil {
		t.Skipf("needs an installed NVRTC, though no GPU: %v", err)
	}
	for arch, types := range map[string][]tensor.DType{"sm_75": {tensor.F32}, "sm_80": {tensor.BF16}, "sm_90": types} {
		for _, d := range types {
			c := &compiler{rtc: rtc, arch: arch, dir: t.TempDir()}
			b, err := c.image(source(d, block))
			if err != nil {
				t.Fatal(err)
			}
			again, ok := readImage(filepath.Join(c.dir, c.key(source(d, block))+".cubin"))
			if !ok || string(again) != string(b) {
				t.Error("the image is not in the cache")
			}
		}
	}
}
