package host

import (
	"context"
	"slices"

	"github.com/trainctl/trainctl/core/base/usererr"
	"github.com/trainctl/trainctl/core/sdk"
)

// PlaceBackend is StartBackend for a rank with known requirements. A built-in
// backend that can run in this process decides by the options, as written in the
// TOML, whether it does; any other backend runs in its own process.
func (h *Host) PlaceBackend(ctx context.Context, plugin string, options map[string]any, need sdk.PlaceRequest) (*Backend, error) {
	if b := h.inRank(sdk.KindBackend, plugin); b != nil {
		instance := b.Plugin.Backend()
		if _, decides := instance.(sdk.Placer); !decides {
			return InProcessBackend(instance), nil
		}
	}
	instance, place, err := h.place(plugin, options, need)
	if usererr.Problems(err) != nil {
		return nil, err
	}
	if err != nil {
		return nil, &StartError{Kind: sdk.KindBackend, Name: plugin, Problem: err.Error(), Err: err}
	}
	if place.Why != "" {
		h.opts.Log.Info("where the backend runs", "plugin", plugin, "in_process", place.InProcess, "because", place.Why)
	}
	var b *Backend
	if place.InProcess {
		b = InProcessBackend(instance)
	} else if b, err = h.StartBackend(ctx, plugin); err != nil {
		return nil, err
	}
	b.placement = place
	return b, nil
}

// place asks a built-in backend where to run. The instance has not been opened.
func (h *Host) place(plugin string, given map[string]any, need sdk.PlaceRequest) (sdk.Backend, sdk.Placement, error) {
	instance, placer := h.placer(plugin)
	if placer == nil {
		return nil, sdk.Placement{}, nil
	}
	var problems usererr.List
	if need.Options, problems = sdk.CheckOptions("backend.options", instance.Info().Options, given); len(problems) > 0 {
		return nil, sdk.Placement{}, problems.Err()
	}
	place, err := placer.Place(need)
	if l := usererr.Problems(err); l != nil {
		var under usererr.List
		under.Under("backend.options", l)
		err = under.Err()
	}
	return instance, place, err
}

// placer returns a built-in backend that decides where it runs; nil for others.
func (h *Host) placer(plugin string) (sdk.Backend, sdk.Placer) {
	b := h.builtin(sdk.KindBackend, plugin)
	if b == nil || b.Plugin.Backend == nil {
		return nil, nil
	}
	instance := b.Plugin.Backend()
	placer, _ := instance.(sdk.Placer)
	return instance, placer
}

// CheckPlace finds options of a built-in backend that conflict with what the rank
// needs. Keys are relative to the options table. No process is started.
func (h *Host) CheckPlace(plugin string, need sdk.PlaceRequest) usererr.List {
	if _, placer := h.placer(plugin); placer != nil {
		_, err := placer.Place(need)
		return usererr.Problems(err)
	}
	return nil
}

// inRank returns a built-in plugin that runs in this process; nil for any other.
func (h *Host) inRank(kind sdk.Kind, plugin string) *Builtin {
	if !slices.Contains(h.opts.InRank, kind) {
		return nil
	}
	return h.builtin(kind, plugin)
}
