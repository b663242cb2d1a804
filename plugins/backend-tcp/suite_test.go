package tcp

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/sdk/sdktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newBackend(testing.TB) sdk.Backend { return New() }

func TestShared(t *testing.T) {
	sdktest.Backend(t, sdktest.BackendOptions{New: newBackend})
}

func TestSockets(t *testing.T) {
	sdktest.Backend(t, sdktest.BackendOptions{
		New:     newBackend,
		Options: map[string]any{"shm": false},
		Worlds:  []int{2, 3, 5, 8},
	})
}

// Small segments make many of them, with ends that do not fit.
func TestSegments(t *testing.T) {
	sdktest.Backend(t, sdktest.BackendOptions{
		New:     newBackend,
		Options: map[string]any{"shm": false, "segment_bytes": int64(4100)},
		Worlds:  []int{2, 3, 5},
		Counts:  []int{0, 1, 50_001, 100_000},
		NoArena: true,
	})
}
