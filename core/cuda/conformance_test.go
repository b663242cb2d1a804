package cuda

import (
	"testing"

	"github.com/trainctl/trainctl/core/cpu"
	"github.com/trainctl/trainctl/core/plan"
	"github.com/trainctl/trainctl/core/tensor/devicetest"
)

func reference() plan.Device { return cpu.New() }

// The device over emulated kernels: what a GPU will be told to compute is right.
func TestConformanceEmulated(t *testing.T) {
	var all []*fake
	devicetest.Run(t, devicetest.Options{Device: func() plan.Device {
		all = append(all, newFake(t))
		return all[len(all)-1].device()
	}, Reference: reference})
	for _, f := range all {
		if len(f.memory) > 0 {
			t.Fatalf("%d allocations are left when all programs are closed", len(f.memory))
		}
	}
}

// The device itself.
func TestConformance(t *testing.T) {
	d, err := Open(0, t.TempDir())
	if err != nil {
		t.Skip(err)
	}
	devicetest.Run(t, devicetest.Options{Device: func() plan.Device { return d }, Reference: reference})
}
