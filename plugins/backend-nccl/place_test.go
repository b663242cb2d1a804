package nccl

import (
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trainctl/trainctl/core/plugin/host"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/sdk/sdktest"
)

// mpsAt makes a directory as MPS's control daemon does, or none.
func mpsAt(t *testing.T, on bool) func(string) string {
	t.Helper()
	dir := t.TempDir()
	if on {
		l, err := net.Listen("unix", filepath.Join(dir, "control"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
	}
	return func(string) string { return dir }
}

func TestPlace(t *testing.T) {
	for _, c := range []struct {
		name      string
		mode      string
		mps       bool
		r         sdk.PlaceRequest
		inProcess bool
		why       string
	}{
		{"a CPU rank", "auto", false, sdk.PlaceRequest{Device: "cpu", Overlap: true}, false, "on the CPU"},
		{"MPS", "auto", true, sdk.PlaceRequest{Device: "cuda", Overlap: true}, false, "MPS runs"},
		{"restarts", "auto", false, sdk.PlaceRequest{Device: "cuda", Overlap: true, Restarts: 1}, false, "can be replaced"},
		{"no overlap", "auto", false, sdk.PlaceRequest{Device: "cuda"}, false, "costs nothing"},
		{"overlap without MPS", "auto", false, sdk.PlaceRequest{Device: "cuda", Overlap: true}, true, "time-slices"},
		{"isolated", "isolated", false, sdk.PlaceRequest{Device: "cuda", Overlap: true}, false, "time-slices"},
		{"isolated with MPS", "isolated", true, sdk.PlaceRequest{Device: "cuda", Overlap: true}, false, "under MPS"},
		{"inproc", "inproc", true, sdk.PlaceRequest{Device: "cpu"}, true, "inproc"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.r.Options, c.r.Getenv = sdk.Options{"isolation": c.mode}, mpsAt(t, c.mps)
			got, err := New().Place(c.r)
			if err != nil || got.InProcess != c.inProcess || !strings.Contains(got.Why, c.why) {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
	_, err := New().Place(sdk.PlaceRequest{Options: sdk.Options{"isolation": "inproc"}, Restarts: 1, Getenv: mpsAt(t, false)})
	if err == nil || !strings.Contains(err.Error(), "backend.restarts") {
		t.Errorf("inproc with restarts: %v", err)
	}
}

// The backend in the rank's process, chosen as a rank chooses it, meets the
// same contract.
func TestConformanceInProcess(t *testing.T) {
	t.Parallel()
	m := machine(t, 8)
	h := host.New(host.Options{SetEnv: []string{"GORACE=atexit_sleep_ms=0"}, Builtins: []host.Builtin{{Kind: sdk.KindBackend, Name: "nccl", Plugin: sdk.Plugin{Backend: func() sdk.Backend { return onFake(m, 23000) }}}}})
	options := map[string]any{"isolation": isolationInproc}
	base := sdktest.BackendOptions{
		New:     sdktest.BackendPlaced(h, "nccl", options, sdk.PlaceRequest{Device: "cuda", Overlap: true, Getenv: mpsAt(t, false)}),
		Options: options, AnyOrder: true, Counts: []int{0, 1, 1000}, Worlds: []int{1, 2},
	}
	t.Run("host", func(t *testing.T) { sdktest.Backend(t, base) })
	t.Run("device", func(t *testing.T) {
		sdktest.Device(t, sdktest.DeviceOptions{
			BackendOptions: base, InProcess: true, Events: true,
			Rank: func(t testing.TB, rank, size int) sdktest.DeviceRank { return newComputing(t, m.CUDA(), rank, size) },
		})
	})
}
