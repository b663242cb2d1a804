package host

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/trainctl/trainctl/core/base/usererr"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/sdk/sdktest/membackend"
	"github.com/trainctl/trainctl/core/tensor"
)

// choosy runs in this process if the option says so, and takes arenas on GPUs.
type choosy struct {
	sdk.Backend
	group    *sdk.Group
	attached **sdk.Arena
}

func (c choosy) Info() sdk.Info {
	i := c.Backend.Info()
	i.DeviceArena = true
	i.Options = []sdk.Option{{Name: "here", Type: sdk.Boolean, Default: false}}
	return i
}

func (c choosy) Place(r sdk.PlaceRequest) (sdk.Placement, error) {
	switch {
	case r.Restarts > 1:
		return sdk.Placement{}, errors.New("out of order")
	case r.Restarts > 0:
		return sdk.Placement{}, usererr.List{{Key: "here", Detail: "no restarts"}}.Err()
	}
	return sdk.Placement{InProcess: r.Options.Bool("here"), Why: "it was asked for"}, nil
}

func (c choosy) Open(_ context.Context, g sdk.Group, _ sdk.Options) error { *c.group = g; return nil }

func (c choosy) Attach(_ context.Context, a *sdk.Arena) error {
	*c.attached = a
	a.Device.Done = sdk.Events{Local: []uint64{7}}
	return nil
}

func (c choosy) Do(context.Context, *sdk.Collective) error { return nil }

func choosyHost() (*Host, *sdk.Group, **sdk.Arena) {
	var group sdk.Group
	var attached *sdk.Arena
	h := New(Options{Builtins: []Builtin{{Kind: sdk.KindBackend, Name: "choosy", Plugin: sdk.Plugin{
		Backend: func() sdk.Backend { return choosy{membackend.NewWorld().New(), &group, &attached} },
	}}}})
	return h, &group, &attached
}

func TestABackendIsPutWhereItWants(t *testing.T) {
	h, group, _ := choosyHost()
	b, err := h.PlaceBackend(t.Context(), "choosy", map[string]any{"here": true}, sdk.PlaceRequest{})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close(t.Context())
	if err := b.Open(t.Context(), sdk.Group{WorldSize: 1}, nil); err != nil || !group.InProcess || b.PID() != 0 {
		t.Errorf("opened with %+v, %v", group, err)
	}
	if p := b.Placement(); !p.InProcess || p.Why != "it was asked for" {
		t.Errorf("placed %+v", p)
	}
	if err := b.Restart(t.Context()); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("Restart: %v", err)
	}
	var failed *StartError
	if _, err := h.PlaceBackend(t.Context(), "choosy", nil, sdk.PlaceRequest{Restarts: 2}); !errors.As(err, &failed) || !strings.Contains(err.Error(), "out of order") {
		t.Error(err)
	}
}

// Options that do not fit are the user's to fix, with their key, and no fault of the plugin.
func TestOptionsThatDoNotFit(t *testing.T) {
	h, _, _ := choosyHost()
	for want, c := range map[string]struct {
		options  map[string]any
		restarts int
	}{
		"backend.options.here: no restarts":   {nil, 1},
		"backend.options.there: unknown key ": {map[string]any{"there": true}, 0},
	} {
		_, err := h.PlaceBackend(t.Context(), "choosy", c.options, sdk.PlaceRequest{Restarts: c.restarts})
		if usererr.Problems(err) == nil || errors.As(err, new(*StartError)) || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
	if l := h.CheckPlace("choosy", sdk.PlaceRequest{Restarts: 1}); len(l) != 1 || l[0].Key != "here" {
		t.Errorf("found %v", l)
	}
	for _, plugin := range []string{"choosy", "unknown", "./choosy"} {
		if l := h.CheckPlace(plugin, sdk.PlaceRequest{}); l != nil {
			t.Errorf("%s: %v", plugin, l)
		}
	}
}

func TestArenasOnGPUsAreForThoseWhoTakeThem(t *testing.T) {
	arena := &sdk.Arena{ID: 2, Name: "gradients", Device: &sdk.DeviceMemory{Size: 64, Kind: sdk.HandleAddress}}
	plain := InProcessBackend(membackend.NewWorld().New())
	defer plain.Close(t.Context())
	if err := plain.Attach(t.Context(), arena); !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), `"gradients"`) {
		t.Errorf("got %v", err)
	}
	h, _, attached := choosyHost()
	b, err := h.PlaceBackend(t.Context(), "choosy", map[string]any{"here": true}, sdk.PlaceRequest{})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close(t.Context())
	if err := errors.Join(b.Open(t.Context(), sdk.Group{WorldSize: 1, Channels: 2}, nil), b.Attach(t.Context(), arena)); err != nil || *attached != arena {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		call sdk.Collective
		good bool
	}{
		{"whole", sdk.Collective{Count: 16, Ready: 1, Done: 1, Channel: 1}, true},
		{"beyond", sdk.Collective{Count: 16, Offset: 4}, false},
		{"before", sdk.Collective{Count: 1, Offset: -4}, false},
		{"ready", sdk.Collective{Count: 1, Ready: 2}, false},
		{"done", sdk.Collective{Count: 1, Done: 2}, false},
		{"channel", sdk.Collective{Count: 1, Channel: 2}, false},
	} {
		c.call.Op, c.call.DType, c.call.Arena = sdk.OpAllReduce, tensor.F32, arena
		ticket, err := b.Submit(&c.call)
		if (err == nil) != c.good {
			t.Errorf("%s: %v", c.name, err)
		}
		if err == nil {
			if err := b.Wait(ticket); err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
		}
	}
}
