package amp

import (
	"fmt"
	"math"

	"github.com/trainctl/trainctl/core/sdk"
)

// scaler is a dynamic or static loss scale. It depends only on the sequence of its
// updates, so ranks with the same updates agree.
type scaler interface {
	update(foundInf bool) sdk.ScaleState
	state() map[string]float64
	load(map[string]float64) error
}

// static never changes and, as in apex, never skips.
type static struct{ scale float64 }

func (s *static) update(bool) sdk.ScaleState { return sdk.ScaleState{Scale: s.scale} }

func (s *static) state() map[string]float64 { return map[string]float64{} }

func (s *static) load(m map[string]float64) error {
	if len(m) > 0 {
		return fmt.Errorf("the checkpoint has a dynamic loss scale, and this run a fixed one: use the [precision] table of the run that wrote it")
	}
	return nil
}

// gradScaler is torch.amp.GradScaler (torch/amp/grad_scaler.py, and the
// update rule of aten/src/ATen/native/cuda/AmpKernels.cu). The scale is a
// float32 there, and so it is here.
type gradScaler struct {
	scale           float32
	growth, backoff float64
	interval        int64
	tracker         int64
	skipped         uint64
}

func (g *gradScaler) update(foundInf bool) sdk.ScaleState {
	if foundInf {
		g.scale = float32(float64(g.scale) * g.backoff)
		g.tracker = 0
		g.skipped++
		return sdk.ScaleState{Scale: float64(g.scale), Skip: true, Skipped: g.skipped}
	}
	g.skipped = 0
	g.tracker++
	if g.tracker == g.interval {
		if up := float32(float64(g.scale) * g.growth); !math.IsInf(float64(up), 0) {
			g.scale = up
		}
		g.tracker = 0
	}
	return sdk.ScaleState{Scale: float64(g.scale)}
}

// state has the keys of GradScaler.state_dict.
func (g *gradScaler) state() map[string]float64 {
	return map[string]float64{
		"scale": float64(g.scale), "growth_factor": g.growth, "backoff_factor": g.backoff,
		"growth_interval": float64(g.interval), "_growth_tracker": float64(g.tracker),
	}
}

func (g *gradScaler) load(m map[string]float64) error {
	if err := require(m, "GradScaler", "scale", "growth_factor", "backoff_factor", "growth_interval", "_growth_tracker"); err != nil {
		return err
	}
	g.scale, g.growth, g.backoff = float32(m["scale"]), m["growth_factor"], m["backoff_factor"]
	g.interval, g.tracker, g.skipped = int64(m["growth_interval"]), int64(m["_growth_tracker"]), 0
	return nil
}

// lossScaler is apex's (apex/amp/scaler.py): the scale has limits, and the
// window counts steps since the last change.
type lossScaler struct {
	scale           float64
	growth, backoff float64
	window          int64
	min, max        float64 // min 0: none
	unskipped       int64
	skipped         uint64
}

func (l *lossScaler) update(foundInf bool) sdk.ScaleState {
	if foundInf {
		l.scale = math.Max(l.min, l.scale*l.backoff)
		l.unskipped = 0
		l.skipped++
		return sdk.ScaleState{Scale: l.scale, Skip: true, Skipped: l.skipped}
	}
	l.skipped = 0
	l.unskipped++
	if l.unskipped == l.window {
		l.scale = math.Min(l.max, l.scale*l.growth)
		l.unskipped = 0
	}
	return sdk.ScaleState{Scale: l.scale}
}

// state has the keys of amp.state_dict's loss_scaler0.
func (l *lossScaler) state() map[string]float64 {
	return map[string]float64{"loss_scale": l.scale, "unskipped": float64(l.unskipped)}
}

func (l *lossScaler) load(m map[string]float64) error {
	if err := require(m, "apex loss scaler", "loss_scale", "unskipped"); err != nil {
		return err
	}
	l.scale, l.unskipped, l.skipped = m["loss_scale"], int64(m["unskipped"]), 0
	return nil
}

// require rejects the state of another kind of scaler, and an empty one.
func require(m map[string]float64, what string, keys ...string) error {
	for _, k := range keys {
		if _, ok := m[k]; !ok {
			return fmt.Errorf("the checkpoint lacks %q of a %s: use the [precision] table of the run that wrote it", k, what)
		}
	}
	return nil
}

func (s settings) scaleKeeper() scaler {
	switch {
	case !s.dynamic:
		return &static{scale: s.scale}
	case s.level == "":
		return &gradScaler{scale: float32(s.scale), growth: s.growth, backoff: s.backoff, interval: s.every}
	}
	return &lossScaler{scale: s.scale, growth: s.growth, backoff: s.backoff, window: s.every, min: s.min, max: s.max}
}
