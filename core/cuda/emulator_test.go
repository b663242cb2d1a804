package cuda

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/trainctl/trainctl/core/cuda/dl"
	"github.com/trainctl/trainctl/core/cuda/driver"
	"github.com/trainctl/trainctl/core/tensor"
)

// emulated is the kernels of one element type, compiled for the processor.
type emulated struct {
	launch func(name *byte, gx, gy, gz, threads uint32, params uintptr) int32
	has    func(name *byte) int32
}

var kernelName = regexp.MustCompile(`(?m)^(?:KERNEL |function\(|function_of_two\()(\w+)[(,]`)

// emulatedBlock is the threads of a block: each costs a coroutine, and 64 are two warps.
const emulatedBlock = 64

// program makes a C++ program of the kernels' source.
func program(d tensor.DType) string {
	shim, launch := must(os.ReadFile("testdata/emulator/shim.h")), must(os.ReadFile("testdata/emulator/launch.h"))
	src := source(d)
	at := kernelName.FindAllStringSubmatchIndex(src, -1)
	table := "Entry entries[] = {\n"
	for i, m := range at {
		end := len(src)
		if i+1 < len(at) {
			end = at[i+1][0]
		}
		name, body := src[m[2]:m[3]], src[m[0]:end]
		barriers := strings.Contains(body, "__syncthreads") || strings.Contains(body, "block_sum") || strings.Contains(body, "lane_sum")
		table += fmt.Sprintf("{%q, Unpack<decltype(&%s), &%s>::run, %t},\n", name, name, name, barriers)
	}
	return string(shim) + src + string(launch) + table + "{0, 0, 0}};\n"
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

var types = []tensor.DType{tensor.F32, tensor.F64, tensor.F16, tensor.BF16}

var emulator = sync.OnceValues(func() (map[tensor.DType]*emulated, error) {
	dir := must(os.MkdirTemp("", "emulator"))
	defer os.RemoveAll(dir)
	var g errgroup.Group
	g.SetLimit(2)
	for _, d := range types {
		g.Go(func() error {
			file := filepath.Join(dir, d.String()+".cpp")
			if err := os.WriteFile(file, []byte(program(d)), 0o600); err != nil {
				return err
			}
			// hidden, because libraries are opened for all to see, and their names are the same;
			// no contraction: a fused multiply-add here would hide a lost one there
			out, err := exec.Command("g++", "-std=c++17", "-O1", fmt.Sprint("-DBLOCK=", emulatedBlock), "-U_FORTIFY_SOURCE", "-ffp-contract=off", "-fPIC", "-shared", "-fvisibility=hidden", "-fno-gnu-unique", "-Wall", "-Wno-unused", "-o", file+".so", file).CombinedOutput()
			if err != nil || len(out) > 0 {
				return fmt.Errorf("g++: %w\n%s", err, out)
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	all := map[tensor.DType]*emulated{}
	for _, d := range types {
		lib, err := dl.Open(filepath.Join(dir, d.String()+".cpp.so"))
		if err != nil {
			return nil, err
		}
		launch, has := lib.Symbol("emulator_launch"), lib.Symbol("emulator_has")
		all[d] = &emulated{
			launch: func(name *byte, gx, gy, gz, threads uint32, params uintptr) int32 {
				return dl.Call(launch, address(name), uintptr(gx), uintptr(gy), uintptr(gz), uintptr(threads), params)
			},
			has: func(name *byte) int32 { return dl.Call(has, address(name)) },
		}
	}
	return all, nil
})

// kernels are the emulated ones, for tests that need them.
func kernels(t testing.TB) map[tensor.DType]*emulated {
	t.Helper()
	if _, err := exec.LookPath("g++"); err != nil {
		t.Skip("no C++ compiler to run the kernels on this processor: ", err)
	}
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
		t.Skip(err)
	}
	for arch, types := range map[string][]tensor.DType{"sm_75": {tensor.F32}, "sm_80": {tensor.BF16}, "sm_90": types} {
		for _, d := range types {
			c := &compiler{rtc: rtc, arch: arch, dir: t.TempDir()}
			b, err := c.image(source(d))
			if err != nil {
				t.Fatal(err)
			}
			again, ok := readImage(filepath.Join(c.dir, c.key(source(d))+".cubin"))
			if !ok || string(again) != string(b) {
				t.Error("the image is not in the cache")
			}
		}
	}
}
