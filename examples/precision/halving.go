package main

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/tensor"
)

// Halving multiplies matrices in float16. It scales the loss so that small gradients
// do not become zero: the scale is halved after a step that overflowed, and doubled
// after as many good steps as the option interval has.
//
// Every rank has its own instance. They agree without communication, because all get
// the same sequence of Update calls.
type Halving struct {
	scale    float64 // 0 before Policy
	interval int64
	good     int64  // steps since the scale changed
	skipped  uint64 // steps in a row
}

// Info returns what `trainctl plugins info` prints. trainctl checks the user's
// [precision.options] against Options and fills in the defaults.
func (h *Halving) Info() sdk.Info {
	least, most, one := 1.0, math.Ldexp(1, 24), 1.0
	return sdk.Info{
		Kind: sdk.KindPrecision, Name: "halving", Version: "0.1.0", Summary: "an example: float16 with a loss scale that halves",
		Options: []sdk.Option{
			{Name: "init_scale", Type: sdk.Float, Default: 65536.0, Min: &least, Max: &most, Doc: "Loss scale of the first step."},
			{Name: "interval", Type: sdk.Int, Default: int64(2000), Min: &one, Unit: "steps", Doc: "Good steps after which the scale doubles."},
		},
	}
}

// Policy selects the type of each operation. Operations that are not listed run in the
// type of their inputs. It is the first call.
func (h *Halving) Policy(_ context.Context, o sdk.Options) (sdk.Policy, error) {
	h.scale, h.interval = o.Float("init_scale"), o.Int("interval")
	if fraction, _ := math.Frexp(h.scale); fraction != 0.5 {
		return sdk.Policy{}, fmt.Errorf("init_scale = %v is not a power of two, so scaling would round gradients", h.scale)
	}
	return sdk.Policy{
		Name: "float16, halving", Params: tensor.F32, Lower: tensor.F16, Scale: h.scale, Dynamic: true,
		Casts: map[string]sdk.Cast{
			"linear": sdk.CastLower, "conv2d": sdk.CastLower,
			"cross_entropy": sdk.CastF32, "mse": sdk.CastF32,
		},
	}, nil
}

var errOrder = errors.New("halving: called before Policy")

// Update is called after every step. foundInf is the same on all ranks.
func (h *Halving) Update(_ context.Context, foundInf bool) (sdk.ScaleState, error) {
	if h.scale == 0 {
		return sdk.ScaleState{}, errOrder
	}
	if foundInf {
		h.scale, h.good = max(h.scale/2, 1), 0
		h.skipped++
		return sdk.ScaleState{Scale: h.scale, Skip: true, Skipped: h.skipped}, nil
	}
	h.skipped = 0
	if h.good++; h.good == h.interval {
		h.scale, h.good = min(h.scale*2, math.Ldexp(1, 24)), 0
	}
	return sdk.ScaleState{Scale: h.scale}, nil
}

// State is saved in checkpoints. It has everything that later updates depend on.
func (h *Halving) State(context.Context) (map[string]float64, error) {
	if h.scale == 0 {
		return nil, errOrder
	}
	return map[string]float64{"scale": h.scale, "good": float64(h.good)}, nil
}

// Load restores what State returned. It is called after Policy, and keeps the
// interval, which a user may change.
func (h *Halving) Load(_ context.Context, state map[string]float64) error {
	scale, ok := state["scale"]
	good, also := state["good"]
	if !ok || !also {
		return fmt.Errorf("halving: the checkpoint holds %v, which another precision plugin wrote", state)
	}
	h.scale, h.good, h.skipped = scale, int64(good), 0
	return nil
}

// Close is the last call, also after an error.
func (h *Halving) Close() error { return nil }

var _ sdk.Precision = (*Halving)(nil)
