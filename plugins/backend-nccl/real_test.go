package nccl

import (
	"errors"
	"os"
	"testing"

	"github.com/trainctl/trainctl/core/cuda/dl"
	"github.com/trainctl/trainctl/core/cuda/driver"
	"github.com/trainctl/trainctl/core/host"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/sdk/sdktest"
)

// realGPUs gives the driver of this machine, or skips with what is missing.
func realGPUs(t *testing.T) (cu *driver.CUDA, devices int, version int32) {
	t.Helper()
	libs, err := load(dl.System(), "")
	if err != nil {
		t.Skipf("needs GPUs with their driver and NCCL: %v", err)
	}
	var n int32
	err = errors.Join(libs.cuda.Init(0), libs.cuda.DeviceGetCount(&n), libs.nccl.GetVersion(&version))
	if err != nil || n == 0 {
		t.Skipf("no GPU: %d devices, %v", n, err)
	}
	return libs.cuda, int(n), version
}

// The suites on real GPUs and the real NCCL: a rank for each GPU, and two on
// one where NCCL can do that.
func TestRealGPUs(t *testing.T) {
	cu, devices, version := realGPUs(t)
	builtin := host.New(host.Options{Builtins: []host.Builtin{{Kind: sdk.KindBackend, Name: "nccl", Plugin: sdk.Plugin{Backend: func() sdk.Backend { return New() }}}}})
	need := sdk.PlaceRequest{Device: "cuda", Overlap: true, Getenv: os.Getenv}
	for _, c := range []struct {
		name    string
		worlds  []int
		options map[string]any
		new     func(o map[string]any) func(testing.TB) sdk.Backend
	}{
		{"isolated", worldsUpTo(devices), map[string]any{}, func(map[string]any) func(testing.TB) sdk.Backend {
			return sdktest.BackendProcess(host.New(host.Options{}), executable(t))
		}},
		{"inproc", []int{1}, map[string]any{"isolation": isolationInproc}, func(o map[string]any) func(testing.TB) sdk.Backend {
			return sdktest.BackendPlaced(builtin, "nccl", o, need)
		}},
		{"shared", []int{2}, map[string]any{"allow_shared_device": true}, func(map[string]any) func(testing.TB) sdk.Backend {
			return sdktest.BackendProcess(host.New(host.Options{}), executable(t))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.name == "shared" && version < sharedSince {
				t.Skipf("NCCL %s cannot serve two ranks on one GPU", driver.NCCLVersion(version))
			}
			base := sdktest.BackendOptions{New: c.new(c.options), Options: c.options, Worlds: c.worlds, AnyOrder: true, NoPrivate: c.name != "inproc"}
			t.Run("host", func(t *testing.T) { sdktest.Backend(t, base) })
			t.Run("device", func(t *testing.T) {
				sdktest.Device(t, sdktest.DeviceOptions{
					BackendOptions: base, InProcess: c.name == "inproc", Events: true,
					Rank: func(t testing.TB, rank, size int) sdktest.DeviceRank { return newComputing(t, cu, rank%devices, size) },
				})
			})
		})
	}
}

// worldsUpTo are the worlds that have a GPU for each rank.
func worldsUpTo(devices int) (worlds []int) {
	for n := 1; n <= min(devices, 4); n++ {
		worlds = append(worlds, n)
	}
	return worlds
}
