package sdktest

import (
	"context"
	"testing"

	"github.com/trainctl/trainctl/core/plugin/host"
	"github.com/trainctl/trainctl/core/sdk"
)

// BackendPlaced makes a [BackendOptions.New] that puts the backend where it
// wants to run, as a rank does; see [sdk.Placer]. The options go into
// [BackendOptions.Options] too.
func BackendPlaced(h *host.Host, plugin string, options map[string]any, need sdk.PlaceRequest) func(testing.TB) sdk.Backend {
	return func(t testing.TB) sdk.Backend {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), defaultPatience)
		defer cancel()
		b, err := h.PlaceBackend(ctx, plugin, options, need)
		if err != nil {
			t.Fatal(err)
		}
		return &wired{Backend: b, log: &logTail{}}
	}
}
