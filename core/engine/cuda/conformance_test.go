package cuda

import (
	goflag "flag"
	"strings"
	"testing"

	"github.com/trainctl/trainctl/core/engine/cpu"
	"github.com/trainctl/trainctl/core/engine/cuda/fakegpu"
	"github.com/trainctl/trainctl/core/engine/cuda/gpu"
	"github.com/trainctl/trainctl/core/engine/cuda/kernels"
	"github.com/trainctl/trainctl/core/engine/devicetest"
	"github.com/trainctl/trainctl/core/engine/plan"
	"github.com/trainctl/trainctl/core/tensor"
)

func reference() plan.Device { return cpu.New() }

// alone leaves out in short runs, which are those of the race detector, what
// computes long on one goroutine.
func alone(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("one goroutine computes here: a race detector has nothing to see")
	}
}

// conform runs the suite over fakes, which must have their memory back when all
// programs are closed, and tells how often each kernel ran.
func conform(t *testing.T, o devicetest.Options, device func(f *fakegpu.Machine) plan.Device) (ran map[string]int) {
	alone(t)
	var all []*fakegpu.Machine
	o.Device = func() plan.Device {
		all = append(all, fakegpu.Computing(t))
		return device(all[len(all)-1])
	}
	devicetest.Run(t, o)
	ran = map[string]int{}
	for _, f := range all {
		f.EachRan(func(name string, n int) { ran[name] += n })
		if n, _ := f.Allocations(); n+f.Graphs() > 0 {
			t.Fatalf("%d allocations and %d graphs are left when all programs are closed", n, f.Graphs())
		}
	}
	return ran
}

// mustRun checks that what a test is about took part in it, unless only some subtests ran.
func mustRun(t *testing.T, ran map[string]int, names ...string) {
	t.Helper()
	if strings.Contains(goflag.Lookup("test.run").Value.String(), "/") {
		return
	}
	for _, name := range names {
		if ran[name] == 0 {
			t.Errorf("%s did not run", name)
		}
	}
}

// The device over emulated kernels: what a GPU will be told to compute is right.
func TestConformanceEmulated(t *testing.T) {
	conform(t, devicetest.Options{Reference: reference}, func(f *fakegpu.Machine) plan.Device { return device(f) })
}

// The device with libraries: what they are told to compute is right.
func TestConformanceLinked(t *testing.T) {
	ran := conform(t, devicetest.Options{DTypes: []tensor.DType{tensor.F32, tensor.F16, tensor.BF16}, BiasApart: true, Reference: reference}, func(f *fakegpu.Machine) plan.Device { return linked(f) })
	mustRun(t, ran, "cublasLtMatmul", "cudnnBackendExecute", "add_relu", "convert_layout", "bn_apply_last", "bn_grad_input_last")
}

// The device itself.
func TestConformance(t *testing.T) {
	d, err := Open(0, t.TempDir())
	if err != nil {
		t.Skipf("needs a GPU with its driver and NVRTC: %v", err)
	}
	devicetest.Run(t, devicetest.Options{Device: func() plan.Device { return d }, Reference: reference, BiasApart: true})
}

// device is a machine's only GPU, without libraries.
func device(m *fakegpu.Machine) *Device {
	return newDevice(must(gpu.New(m.CUDA(), 0, fakegpu.Block, fakegpu.Image)))
}

// linked is a device that finds the fake libraries too.
func linked(m *fakegpu.Machine) *Device {
	d := device(m)
	use(d, m.BLAS(), m.DNN())
	return d
}

// use makes libraries ready; nil is none.
func use(d *Device, b *fakegpu.BLAS, n *fakegpu.DNN) {
	if b != nil {
		d.lib.UseBLAS(b.API())
	}
	if n != nil {
		d.lib.UseDNN(n.API())
	}
}

// ran is how often kernels and functions of libraries ran.
func ran(m *fakegpu.Machine) map[string]int {
	all := map[string]int{}
	m.EachRan(func(name string, n int) { all[name] = n })
	return all
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// Every kernel is also a C++ program.
func TestKernelsAreEmulated(t *testing.T) {
	m := fakegpu.Computing(t)
	for _, d := range fakegpu.Types {
		if names := m.Lacking(d, kernels.Source(d, fakegpu.Block)); len(names) > 0 {
			t.Errorf("%v: no %v", d, names)
		}
	}
}
