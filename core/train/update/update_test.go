package update

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
	s := Scaler{Plugin: h, Dynamic: true, Scale: 8}
	if skip, unscale, err := s.Next(true); !skip || unscale != 1.0/8 || err != nil || s.Scale != 4 {
		t.Errorf("skip %v, unscale %v, then scale %v, %v", skip, unscale, s.Scale, err)
	}
	if skip, unscale, err := s.Next(false); skip || unscale != 1.0/4 || err != nil {
		t.Errorf("skip %v, unscale %v, %v", skip, unscale, err)
	}
	h.broken = errors.New("gone")
	if _, _, err := s.Next(false); !errors.Is(err, h.broken) {
		t.Errorf("got %v", err)
	}
}

// A plugin with a fixed policy is not called, but its death is noticed.
func TestFixedScaleOnlyLooksAfterThePlugin(t *testing.T) {
	h := &halving{scale: 1}
	s := Scaler{Plugin: h, Scale: 16}
	if skip, unscale, err := s.Next(true); skip || unscale != 1.0/16 || err != nil || s.Scale != 16 {
		t.Errorf("skip %v, unscale %v, scale %v, %v", skip, unscale, s.Scale, err)
	}
	h.broken = errors.New("gone")
	if _, _, err := s.Next(false); !errors.Is(err, h.broken) {
		t.Errorf("got %v", err)
	}
}

// A checkpoint's scale is found under GradScaler's name and under apex's.
func TestScaleOfACheckpoint(t *testing.T) {
	for name, want := range map[string]float64{"scale": 32, "loss_scale": 32, "growth": 8} {
		h := &halving{}
		s := Scaler{Plugin: h, Scale: 8}
		if err := s.Load(t.Context(), map[string]float64{name: 32}); err != nil || s.Scale != want || h.loaded[name] != 32 {
			t.Errorf("%s: scale %v, the plugin got %v, %v", name, s.Scale, h.loaded, err)
		}
	}
	h := &halving{broken: errors.New("not asked")}
	if err := (&Scaler{Plugin: h}).Load(t.Context(), nil); err != nil || h.loaded != nil {
		t.Errorf("without a state: %v, %v", h.loaded, err)
	}
}
