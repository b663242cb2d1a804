package nccl

import (
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"github.com/trainctl/trainctl/core/cuda/dl"
	"github.com/trainctl/trainctl/core/cuda/driver"
	"github.com/trainctl/trainctl/core/host"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/sdk/sdktest"
	"github.com/trainctl/trainctl/plugins/backend-nccl/internal/fakegpu"
)

// envMachine has the socket of a fake machine. With it the test binary is the
// plugin on that machine.
const envMachine = "TRAINCTL_TEST_FAKE_GPU"

func TestMain(m *testing.M) {
	if path := os.Getenv(envMachine); path != "" {
		sdk.Serve(sdk.Plugin{Backend: func() sdk.Backend { return onMachineAt(path) }})
	}
	goleak.VerifyTestMain(m)
}

func onMachineAt(path string) *Backend {
	b := New()
	b.load = func(*dl.Finder, string) (libraries, error) {
		cuda, nccl, err := fakegpu.Dial(path)
		return libraries{cuda, nccl}, err
	}
	b.setenv = func(string, string) error { return nil }
	return b
}

// served makes a machine that plugin processes of h can reach. Nothing must be
// left on it when all of them have ended.
func served(t testing.TB, devices int) (*fakegpu.Machine, *host.Host) {
	t.Helper()
	m := fakegpu.New(devices)
	dir, err := os.MkdirTemp("", "fake") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "gpu")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	over := make(chan struct{})
	go func() { defer close(over); m.Serve(l, 23000) }()
	t.Cleanup(func() {
		err := errors.Join(l.Close(), os.RemoveAll(dir))
		<-over
		if left := m.Left(); left != "" || err != nil {
			t.Errorf("not given back: %s, %v", left, err)
		}
	})
	return m, host.New(host.Options{SetEnv: []string{envMachine + "=" + path}, Log: slog.New(slog.DiscardHandler)})
}

func executable(t testing.TB) string {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return exe
}

// Arenas on a GPU, in plugin processes: descriptors, IPC handles and events
// cross the border between them and the rank.
func TestDeviceArenasOfPluginProcesses(t *testing.T) {
	for name, lacks := range map[string][]driver.DeviceAttribute{
		"descriptors":    nil,
		"IPC handles":    {driver.AttrPosixFDHandles},
		"without events": {driver.AttrIPCEvents},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, h := served(t, 4)
			for _, a := range lacks {
				m.Lack(a)
			}
			sdktest.Device(t, sdktest.DeviceOptions{
				BackendOptions: sdktest.BackendOptions{New: sdktest.BackendProcess(h, executable(t)), Counts: []int{0, 1, 1000, 65537}, Worlds: []int{1, 2}},
				Rank:           func(t testing.TB, rank, size int) sdktest.DeviceRank { return newComputing(t, m.CUDA(), rank, size) },
				Events:         name != "without events",
			})
		})
	}
}

// The same in the rank's process, where addresses are handed over.
func TestDeviceArenasInProcess(t *testing.T) {
	t.Parallel()
	m := fakegpu.New(4)
	t.Cleanup(func() {
		if left := m.Left(); left != "" {
			t.Errorf("not given back: %s", left)
		}
	})
	sdktest.Device(t, sdktest.DeviceOptions{
		BackendOptions: sdktest.BackendOptions{New: func(testing.TB) sdk.Backend { return onFake(m, 23000) }, Counts: []int{0, 1, 3, 1000, 65537}},
		Rank:           func(t testing.TB, rank, size int) sdktest.DeviceRank { return newComputing(t, m.CUDA(), rank, size) },
		InProcess:      true,
		Events:         true,
	})
}
