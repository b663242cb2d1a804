package cuda

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sync/errgroup"

	"github.com/trainctl/trainctl/core/engine/cuda/driver"
	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/engine/op"
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
	p := plan.Assemble(plan.Parts{Batch: 1, DType: tensor.F32, State: []tensor.Spec{x.Spec()}, Steps: []plan.Step{step(op.ReLU), step(op.Tanh)}})
	return must(p.Bind(d, plan.State{Tensors: []tensor.Tensor{x}}))
}

// A launch that fails ends the run with the layer, the operation and the
// driver's code, and the program can run again.
func TestLaunchErrorNamesTheOperation(t *testing.T) {
	f := newFake(t)
	prog := relus(t, f.device())
	f.fail = "tanh_of"
	res := prog.Run(plan.Args{})
	if res.Err == nil || !errors.Is(res.Err, driver.CUResult(701)) || !strings.Contains(res.Err.Error(), "act (tanh), kernel tanh_of") {
		t.Errorf("error %v", res.Err)
	}
	f.fail = ""
	if res := prog.Run(plan.Args{}); res.Err != nil {
		t.Errorf("the next run: %v", res.Err)
	}
}

// Once bound, a program allocates nothing on the device, and closing it frees all.
func TestNoDeviceAllocationInSteadyState(t *testing.T) {
	f := newFake(t)
	prog := relus(t, f.device())
	before := f.allocs
	for range 5 {
		if res := prog.Run(plan.Args{}); res.Err != nil {
			t.Fatal(res.Err)
		}
	}
	if f.allocs != before {
		t.Errorf("%d allocations in five runs", f.allocs-before)
	}
	if err := prog.Close(); err != nil || len(f.memory) > 0 {
		t.Errorf("closed with %d allocations left: %v", len(f.memory), err)
	}
}

// An image that does not have the sum in front of it is compiled again.
func TestDamagedImageIsNotRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sub", "x.cubin")
	if err := writeImage(path, []byte("image")); err != nil {
		t.Fatal(err)
	}
	if b, ok := readImage(path); !ok || string(b) != "image" {
		t.Errorf("read %q, %v", b, ok)
	}
	b := must(os.ReadFile(path))
	b[len(b)-1] ^= 1
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, ok := readImage(path); ok {
		t.Error("a damaged image was read")
	}
}

// Ranks that start together write the same image, and all can read it.
func TestImagesWrittenTogether(t *testing.T) {
	path, image := filepath.Join(t.TempDir(), "x.cubin"), bytes.Repeat([]byte("image"), 50_000)
	var g errgroup.Group
	for range 8 {
		g.Go(func() error {
			if err := writeImage(path, image); err != nil {
				return err
			}
			if b, ok := readImage(path); !ok || !bytes.Equal(b, image) {
				return errors.New("another image was read")
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
	if left := must(filepath.Glob(filepath.Join(filepath.Dir(path), ".cubin-*"))); len(left) > 0 {
		t.Errorf("%v are left", left)
	}
}

// A GPU that NVRTC does not know gets a program for the newest that it does, which the driver finishes.
func TestTargetOfANewerGPU(t *testing.T) {
	archs := []int32{75, 80, 90}
	rtc := &driver.NVRTC{
		GetNumSupportedArchs: func(n *int32) error { *n = int32(len(archs)); return nil },
		GetSupportedArchs:    func(a *int32) error { copy(unsafe.Slice(a, len(archs)), archs); return nil },
	}
	for capability, want := range map[int32]string{80: "sm_80", 86: "sm_86", 90: "sm_90", 120: "compute_90"} {
		if got := target(rtc, capability); got != want {
			t.Errorf("capability %d gets %s, want %s", capability, got, want)
		}
	}
	rtc.GetNumSupportedArchs = func(*int32) error { return driver.NVRTCResult(11) }
	if got := target(rtc, 120); got != "sm_120" {
		t.Errorf("an NVRTC that does not say gets %s", got)
	}
}
