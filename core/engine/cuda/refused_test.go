package cuda

import (
	"errors"
	"strings"
	"testing"

	"github.com/trainctl/trainctl/core/engine/cuda/cudatest"
	"github.com/trainctl/trainctl/core/engine/cuda/driver"
	"github.com/trainctl/trainctl/core/engine/plan"
	"github.com/trainctl/trainctl/core/tensor"
)

// A GPU that the driver does not let us use says why, by the GPU's and the pipe's name.
func TestRefusedDevicesAreNamed(t *testing.T) {
	cudatest.Libraries(t, 1)
	pipes := t.TempDir()
	t.Setenv("CUDA_MPS_PIPE_DIRECTORY", pipes)
	for name, c := range map[string]struct {
		env, value string
		want       []string
	}{
		"exclusive": {"CUDA_FAKE_EXCLUSIVE", "1", []string{"GPU-00000000-0000-0000-0000-000000000001 is in compute mode EXCLUSIVE_PROCESS", "DEVICE_UNAVAILABLE", "nvidia-smi -i GPU-"}},
		"MPS":       {"CUDA_FAKE_INIT", "805", []string{"the MPS control daemon of " + pipes, "MPS_CONNECTION_FAILED", "nvidia-cuda-mps-control -d", "remove " + pipes}},
		"other":     {"CUDA_FAKE_INIT", "802", []string{"SYSTEM_NOT_READY"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(c.env, c.value)
			_, err := Open(0, "")
			var refused *driver.RefusedError
			if named := errors.As(err, &refused); named != (name != "other") {
				t.Errorf("got %v", err)
			}
			for _, want := range c.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%v does not say %q", err, want)
				}
			}
		})
	}
}

// The optimizer's tables are on the device when Updater returns: they are
// copied from memory that is not pinned, which a driver may read late.
func TestTablesAreCopiedBeforeTheyAreGone(t *testing.T) {
	d, mem := mirrored(t, 4096)
	x := tensor.Of(tensor.F32, tensor.Shape{512}, mem[:2048])
	g := tensor.Of(tensor.F32, tensor.Shape{512}, mem[2048:])
	u := must(d.Updater(plan.Rule{Name: "sgd"}, []plan.Slot{{Value: x, Weight: x, Grad: g}}))
	if !d.idle() {
		t.Error("copies are under way")
	}
	if err := u.Close(); err != nil {
		t.Error(err)
	}
}
