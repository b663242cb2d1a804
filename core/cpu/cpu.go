// Package cpu runs plans on the processor's cores. Each file binds one family
// of steps to the kernels of core/kernel.
package cpu

import (
	"fmt"

	"github.com/trainctl/trainctl/core/plan"
)

// Device is the processor.
type Device struct{}

// New returns the processor as a device.
func New() *Device { return &Device{} }

// Name is "cpu".
func (*Device) Name() string { return "cpu" }

// Workspace is the scratch that a step's kernel needs.
func (*Device) Workspace(s *plan.Step) int { return 0 }

// Bind prepares every step of p.
func (*Device) Bind(p *plan.Plan, st plan.State) (plan.Executor, error) {
	return nil, fmt.Errorf("cpu: not there yet")
}

var _ plan.Device = (*Device)(nil)
