package nccl

import (
	"log/slog"
	"testing"

	"github.com/trainctl/trainctl/core/base/dl"
	"github.com/trainctl/trainctl/core/engine/cuda/fakegpu"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/sdk/sdktest"
)

// onFake is a backend on a fake machine.
func onFake(m *fakegpu.Machine, version int32) *Backend {
	b := New()
	b.Log = slog.New(slog.DiscardHandler)
	b.load = func(*dl.Finder, string) (libraries, error) { return libraries{m.CUDA(), m.NCCL(version)}, nil }
	b.setenv = func(string, string) error { return nil }
	return b
}

// The contract of backends holds for the control flow above CUDA and NCCL.
// What the libraries themselves do is not shown.
func TestConformanceOnAFakeMachine(t *testing.T) {
	m := machine(t, 8)
	sdktest.Backend(t, sdktest.BackendOptions{
		New:      func(testing.TB) sdk.Backend { return onFake(m, 22706) },
		AnyOrder: true,
		Counts:   []int{0, 1, 3, 1000, 65537},
		Worlds:   []int{1, 2, 3, 7},
	})
}
