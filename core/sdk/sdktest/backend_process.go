package sdktest

import (
	"context"
	"testing"
	"time"

	"github.com/trainctl/trainctl/core/host"
	"github.com/trainctl/trainctl/core/sdk"
)

// BackendProcess makes a [BackendOptions.New] that starts a process per rank, so that
// the suite talks to the plugin as a training job does. The plugin is the path
// of a binary or the name of one that is built into the host.
func BackendProcess(h *host.Host, plugin string) func(testing.TB) sdk.Backend {
	return func(t testing.TB) sdk.Backend {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		b, err := h.StartBackend(ctx, plugin)
		if err != nil {
			t.Fatal(err)
		}
		return &wired{b}
	}
}

// wired is a backend behind the wire. The deadline of a collective is the
// group's: contexts do not cross it.
type wired struct{ *host.Backend }

func (w *wired) Do(_ context.Context, c *sdk.Collective) error {
	ticket, err := w.Submit(c)
	if err != nil {
		return err
	}
	return w.Wait(ticket)
}

func (w *wired) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return w.Backend.Close(ctx)
}

var _ sdk.Backend = (*wired)(nil)
