package cpu_test

import (
	"testing"

	"github.com/trainctl/trainctl/core/engine/cpu"
	"github.com/trainctl/trainctl/core/engine/devicetest"
	"github.com/trainctl/trainctl/core/engine/plan"
)

// The processor, on one thread and on three, is what a device has to be.
func TestConformance(t *testing.T) {
	serial := func() plan.Device { return cpu.New() }
	for name, device := range map[string]func() plan.Device{
		"serial": serial, "parallel": func() plan.Device { return cpu.NewParallel(3) },
	} {
		t.Run(name, func(t *testing.T) { devicetest.Run(t, devicetest.Options{Device: device, Reference: serial}) })
	}
}
