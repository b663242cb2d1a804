package nccl

import (
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/trainctl/trainctl/core/base/dl"
	"github.com/trainctl/trainctl/core/engine/cuda/driver"
	"github.com/trainctl/trainctl/core/engine/cuda/fakegpu"
	"github.com/trainctl/trainctl/core/plugin/host"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/sdk/sdktest"
)

// envMachine has the socket of a fake machine. With it the test binary is the
// plugin on that machine, or a rank of bench; with a host alone it is the plugin
// on this one.
const envMachine = "TRAINCTL_LIB_FAKE" // the host passes TRAINCTL_LIB* on

func TestMain(m *testing.M) {
	fake := os.Getenv(envMachine) != ""
	switch {
	case fake && os.Getenv("TRAINCTL_BENCH") != "":
		os.Exit(benchRank())
	case fake:
		sdk.Serve(sdk.Plugin{Backend: func() sdk.Backend { return onMachineAt() }})
	case os.Getenv("TRAINCTL_PLUGIN_COOKIE") != "":
		sdk.Serve(sdk.Plugin{Backend: func() sdk.Backend { return New() }})
	}
	goleak.VerifyTestMain(m)
}

// librariesAt are this process's, once for all that ask.
var librariesAt = sync.OnceValues(func() (libraries, error) {
	cuda, nccl, err := fakegpu.Dial(os.Getenv(envMachine))
	return libraries{cuda, nccl}, err
})

func onMachineAt() *Backend {
	b := New()
	b.load = func(*dl.Finder, string) (libraries, error) { return librariesAt() }
	b.setenv = func(string, string) error { return nil }
	return b
}

// served makes a machine that plugin processes of h can reach. Nothing must be
// left on it when all of them have ended. Under the race detector they do not sleep at their end, as by default, for
// half of the time that a plugin has to close.
func served(t testing.TB, devices int) (*fakegpu.Machine, *host.Host) {
	m, path := servedAt(t, devices)
	return m, host.New(host.Options{SetEnv: []string{envMachine + "=" + path, "GORACE=atexit_sleep_ms=0"}, Log: slog.New(slog.DiscardHandler)})
}

// servedAt is served for a test that starts processes itself, by the socket's path.
func servedAt(t testing.TB, devices int) (*fakegpu.Machine, string) {
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
	return m, path
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
				BackendOptions: sdktest.BackendOptions{New: sdktest.BackendProcess(h, executable(t)), Counts: []int{0, 1, 1000}, Worlds: []int{1, 2}},
				Rank:           func(t testing.TB, rank, size int) sdktest.DeviceRank { return newComputing(t, m.CUDA(), rank, size) },
				Events:         name != "without events",
			})
		})
	}
}
