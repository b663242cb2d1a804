package cuda

import (
	"errors"
	"strings"
	"testing"

	"github.com/trainctl/trainctl/core/engine/cuda/driver"
	"github.com/trainctl/trainctl/core/engine/cuda/fakegpu"
	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/engine/op/activation"
	"github.com/trainctl/trainctl/core/engine/plan"
	"github.com/trainctl/trainctl/core/tensor"
)

// relus is a program of two activations over one tensor.
func relus(t *testing.T, d *Device) *plan.Program {
	x := tensor.New(tensor.F32, 300)
	o := plan.Operand{Spec: x.Spec(), Place: plan.PlaceState}
	step := func(op graph.Op) plan.Step {
		return plan.Step{Op: op, Layer: "act", In: []plan.Operand{o}, Out: []plan.Operand{o}}
	}
	p := plan.Assemble(plan.Parts{Batch: 1, DType: tensor.F32, State: []tensor.Spec{x.Spec()}, Steps: []plan.Step{step(activation.ReLU), step(activation.Tanh)}})
	return must(p.Bind(d, plan.State{Tensors: []tensor.Tensor{x}}))
}

// A launch that fails ends the run with the layer, the operation and the
// driver's code, and the program can run again.
func TestLaunchErrorNamesTheOperation(t *testing.T) {
	f := fakegpu.Computing(t)
	prog := relus(t, device(f))
	f.Fail("tanh_of")
	res := prog.Run(plan.Args{})
	if res.Err == nil || !errors.Is(res.Err, driver.CUResult(701)) || !strings.Contains(res.Err.Error(), "act (tanh), kernel tanh_of") {
		t.Errorf("error %v", res.Err)
	}
	f.Fail("")
	if res := prog.Run(plan.Args{}); res.Err != nil {
		t.Errorf("the next run: %v", res.Err)
	}
}

// Once bound, a program allocates nothing on the device, and closing it frees all.
func TestNoDeviceAllocationInSteadyState(t *testing.T) {
	f := fakegpu.Computing(t)
	prog := relus(t, device(f))
	_, before := f.Allocations()
	for range 5 {
		if res := prog.Run(plan.Args{}); res.Err != nil {
			t.Fatal(res.Err)
		}
	}
	if _, now := f.Allocations(); now != before {
		t.Errorf("%d allocations in five runs", now-before)
	}
	err := prog.Close()
	if left, _ := f.Allocations(); err != nil || left > 0 {
		t.Errorf("closed with %d allocations left: %v", left, err)
	}
}
