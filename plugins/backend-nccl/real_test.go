package nccl

import (
	"errors"
	"os"
	"testing"

	"github.com/trainctl/trainctl/core/base/dl"
	"github.com/trainctl/trainctl/core/engine/cuda/cudatest"
	"github.com/trainctl/trainctl/core/engine/cuda/driver"
	"github.com/trainctl/trainctl/core/plugin/host"
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
	for _, p := range places(t) {
		t.Run(p.name, func(t *testing.T) {
			if p.name == "shared" && version < sharedSince {
				t.Skipf("NCCL %s cannot serve two ranks on one GPU", driver.NCCLVersion(version))
			}
			base := p.suite(worldsUpTo(devices))
			t.Run("host", func(t *testing.T) { sdktest.Backend(t, base) })
			t.Run("device", func(t *testing.T) { p.onDevice(t, cu, devices, base) })
		})
	}
}

// The same in processes that share the memory and the events of fake GPUs: what
// the other fake, which is one process's, cannot show.
func TestFakeGPUs(t *testing.T) {
	cudatest.Libraries(t, 2)
	cu, devices, _ := realGPUs(t)
	for _, p := range places(t) {
		t.Run(p.name, func(t *testing.T) {
			base := p.suite([]int{2})
			base.Counts = []int{0, 1, 100_003}
			p.onDevice(t, cu, devices, base)
		})
	}
}

// place is where NCCL runs, and who shares a GPU.
type place struct {
	name    string
	world   int // the only one; 0: one rank for each GPU
	options map[string]any
	new     func(testing.TB) sdk.Backend
}

func places(t *testing.T) []place {
	builtin := host.New(host.Options{Builtins: []host.Builtin{{Kind: sdk.KindBackend, Name: "nccl", Plugin: sdk.Plugin{Backend: func() sdk.Backend { return New() }}}}})
	need := sdk.PlaceRequest{Device: "cuda", Overlap: true, Getenv: os.Getenv}
	inproc, process := map[string]any{"isolation": isolationInproc}, sdktest.BackendProcess(host.New(host.Options{}), executable(t))
	return []place{
		{"isolated", 0, map[string]any{}, process},
		{"inproc", 1, inproc, sdktest.BackendPlaced(builtin, "nccl", inproc, need)},
		{"shared", 2, map[string]any{"allow_shared_device": true}, process},
	}
}

func (p *place) suite(worlds []int) sdktest.BackendOptions {
	if p.world > 0 {
		worlds = []int{p.world}
	}
	return sdktest.BackendOptions{New: p.new, Options: p.options, Worlds: worlds, AnyOrder: true, NoPrivate: p.name != "inproc"}
}

func (p *place) onDevice(t *testing.T, cu *driver.CUDA, devices int, base sdktest.BackendOptions) {
	if p.name == "shared" {
		devices = 1
	}
	sdktest.Device(t, sdktest.DeviceOptions{
		BackendOptions: base, InProcess: p.name == "inproc", Events: true,
		Rank: func(t testing.TB, rank, size int) sdktest.DeviceRank { return newComputing(t, cu, rank%devices, size) },
	})
}

// worldsUpTo are the worlds that have a GPU for each rank.
func worldsUpTo(devices int) (worlds []int) {
	for n := 1; n <= min(devices, 4); n++ {
		worlds = append(worlds, n)
	}
	return worlds
}
