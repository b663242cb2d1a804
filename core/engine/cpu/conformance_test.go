package cpu_test

import (
	"runtime"
	"testing"

	"github.com/trainctl/trainctl/core/engine/cpu"
	"github.com/trainctl/trainctl/core/engine/devicetest"
	"github.com/trainctl/trainctl/core/engine/plan"
	"github.com/trainctl/trainctl/core/tensor"
)

// The processor, on one thread and on three, is what a device has to be. Short tests on arm64, which may be emulated,
// leave threads and float64, which is plain Go, to other architectures.
func TestConformance(t *testing.T) {
	serial := func() plan.Device { return cpu.New() }
	options := devicetest.Options{Device: serial, Reference: serial}
	threads := func() plan.Device { return cpu.NewParallel(3) }
	if testing.Short() && runtime.GOARCH == "arm64" {
		threads, options.DTypes = nil, []tensor.DType{tensor.F32, tensor.F16, tensor.BF16}
	}
	t.Run("serial", func(t *testing.T) { devicetest.Run(t, options) })
	t.Run("parallel", func(t *testing.T) {
		if threads == nil {
			t.Skip("threads are tested on other architectures")
		}
		options.Device = threads
		devicetest.Run(t, options)
	})
}
