package cuda

import (
	"errors"
	"net"
	"path/filepath"
	"strings"
	"syscall"
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

// A pipe that a daemon left behind is not taken for one that runs.
func TestStaleMPSPipe(t *testing.T) {
	dir := t.TempDir()
	getenv := func(string) string { return dir }
	if _, on := driver.MPS(getenv); on || driver.StaleMPS(getenv) != "" {
		t.Error("an empty folder is taken for MPS")
	}
	control := filepath.Join(dir, "control")
	if err := syscall.Mkfifo(control, 0o600); err != nil {
		t.Skip("no named pipes here:", err)
	}
	if _, on := driver.MPS(getenv); on || driver.StaleMPS(getenv) != dir {
		t.Error("a pipe without a reader is taken for MPS")
	}
	daemon, err := syscall.Open(control, syscall.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(daemon)
	if _, on := driver.MPS(getenv); !on || driver.StaleMPS(getenv) != "" {
		t.Error("a daemon that listens is not seen")
	}
}

// The same where the daemon's end is a socket.
func TestStaleMPSSocket(t *testing.T) {
	dir := t.TempDir()
	getenv := func(string) string { return dir }
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, "control")})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false) // as when the daemon is killed
	if _, on := driver.MPS(getenv); !on || driver.StaleMPS(getenv) != "" {
		t.Error("a daemon that listens is not seen")
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if _, on := driver.MPS(getenv); on || driver.StaleMPS(getenv) != dir {
		t.Error("a socket without a listener is taken for MPS")
	}
}

// The optimizer's tables are on the device when Updater returns: they are
// copied from memory that is not pinned, which a driver may read late.
func TestTablesAreCopiedBeforeTheyAreGone(t *testing.T) {
	d, mem := lent(t, 4096)
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

// Small models have blocks enough to keep a GPU busy, large ones no more than
// they need, and each element is in one of them.
func TestPartsOfTheOptimizer(t *testing.T) {
	for n, want := range map[int]uint32{1: 1 << 10, 100_000: 1 << 10, 25_000_000: 25_000_000 / most, 1 << 30: 16 << 10} {
		if got := perPart(n); got != want {
			t.Errorf("%d elements: %d for each block, want %d", n, got, want)
		}
	}
}
