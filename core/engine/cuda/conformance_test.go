package cuda

import (
	goflag "flag"
	"strings"
	"testing"

	"github.com/trainctl/trainctl/core/engine/cpu"
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
func conform(t *testing.T, o devicetest.Options, device func(f *fake) plan.Device) (ran map[string]int) {
	alone(t)
	var all []*fake
	o.Device = func() plan.Device {
		all = append(all, newFake(t))
		return device(all[len(all)-1])
	}
	devicetest.Run(t, o)
	ran = map[string]int{}
	for _, f := range all {
		for name, n := range f.ran {
			ran[name] += n
		}
		if len(f.memory)+len(f.graphs)+len(f.execs) > 0 {
			t.Fatalf("%d allocations, %d graphs and %d ready ones are left when all programs are closed", len(f.memory), len(f.graphs), len(f.execs))
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
	conform(t, devicetest.Options{Reference: reference}, func(f *fake) plan.Device { return f.device() })
}

// The device with libraries: what they are told to compute is right.
func TestConformanceLinked(t *testing.T) {
	ran := conform(t, devicetest.Options{DTypes: []tensor.DType{tensor.F32, tensor.F16, tensor.BF16}, BiasApart: true, Reference: reference}, func(f *fake) plan.Device { return f.linked() })
	mustRun(t, ran, "cublasLtMatmul", "cudnnBackendExecute", "add_relu", "turn", "bn_apply_last", "bn_grad_input_last")
}

// The device itself.
func TestConformance(t *testing.T) {
	d, err := Open(0, t.TempDir())
	if err != nil {
		t.Skipf("needs a GPU with its driver and NVRTC: %v", err)
	}
	devicetest.Run(t, devicetest.Options{Device: func() plan.Device { return d }, Reference: reference, BiasApart: true})
}
