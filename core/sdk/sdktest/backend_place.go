package sdktest

import (
	"context"
	"testing"

	"github.com/trainctl/trainctl/core/plugin/host"
	"github.com/trainctl/trainctl/core/sdk"
)

// BackendPlaced makes a [BackendOptions.New] that runs the backend where it
// chooses to run, as a rank does; see [sdk.Placer]. Set [BackendOptions.Options] to the
// same options.
func BackendPlaced(h *host.Host, plugin string, options map[string]any, need sdk.PlaceRequest) func(testing.TB) sdk.Backend {
	return func(t testing.TB) sdk.Backend {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), defaultCallTimeout)
		defer cancel()
		b, err := h.PlaceBackend(ctx, plugin, options, need)
		if err != nil {
			t.Fatal(err)
		}
		return &remoteBackend{Backend: b, log: &logTail{}}
	}
}
