package train

import (
	"context"
	"errors"
	"testing"

	"github.com/trainctl/trainctl/core/plugin/host"
	"github.com/trainctl/trainctl/core/sdk"
)

// halving is a precision plugin that halves the scale of a step that overflowed.
type halving struct {
	host.Scaler
	scale  float64
	broken error
	loaded map[string]float64
}

func (h *halving) Update(_ context.Context, overflow bool) (sdk.ScaleState, error) {
	if overflow {
		h.scale /= 2
	}
	return sdk.ScaleState{Scale: h.scale, Skip: overflow}, h.broken
}

func (h *halving) Load(_ context.Context, state map[string]float64) error {
	h.loaded = state
	return h.broken
}

func (h *halving) Failed() error { return h.broken }

// Gradients are divided by the scale that their loss had, not by the next one.
func TestScalerFollowsThePlugin(t *testing.T) {
	h := &halving{scale: 8}
	s := scaler{plugin: h, dynamic: true, scale: 8}
	if skip, unscale, err := s.next(true); !skip || unscale != 1.0/8 || err != nil || s.scale != 4 {
		t.Errorf("skip %v, unscale %v, then scale %v, %v", skip, unscale, s.scale, err)
	}
	if skip, unscale, err := s.next(false); skip || unscale != 1.0/4 || err != nil {
		t.Errorf("skip %v, unscale %v, %v", skip, unscale, err)
	}
	h.broken = errors.New("gone")
	if _, _, err := s.next(false); !errors.Is(err, h.broken) {
		t.Errorf("got %v", err)
	}
}

// A plugin with a fixed policy is asked nothing, but its end is found out.
func TestFixedScaleOnlyLooksAfterThePlugin(t *testing.T) {
	h := &halving{scale: 1}
	s := scaler{plugin: h, scale: 16}
	if skip, unscale, err := s.next(true); skip || unscale != 1.0/16 || err != nil || s.scale != 16 {
		t.Errorf("skip %v, unscale %v, scale %v, %v", skip, unscale, s.scale, err)
	}
	h.broken = errors.New("gone")
	if _, _, err := s.next(false); !errors.Is(err, h.broken) {
		t.Errorf("got %v", err)
	}
}

// A checkpoint's scale is found under GradScaler's name and under apex's.
func TestScaleOfACheckpoint(t *testing.T) {
	for name, want := range map[string]float64{"scale": 32, "loss_scale": 32, "growth": 8} {
		h := &halving{}
		s := scaler{plugin: h, scale: 8}
		if err := s.load(t.Context(), map[string]float64{name: 32}); err != nil || s.scale != want || h.loaded[name] != 32 {
			t.Errorf("%s: scale %v, the plugin got %v, %v", name, s.scale, h.loaded, err)
		}
	}
	h := &halving{broken: errors.New("not asked")}
	if err := (&scaler{plugin: h}).load(t.Context(), nil); err != nil || h.loaded != nil {
		t.Errorf("without a state: %v, %v", h.loaded, err)
	}
}
