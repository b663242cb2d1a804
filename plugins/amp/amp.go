package amp

import (
	"context"
	"errors"

	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/tensor"
)

const version = "1.0.0"

// Precision is the plugin "amp", or "none".
type Precision struct {
	info   sdk.Info
	none   bool
	scaler scaler // nil before Policy
}

// New returns the plugin "amp".
func New() *Precision {
	return &Precision{info: sdk.Info{
		Kind: sdk.KindPrecision, Name: "amp", Version: version,
		Summary: "mixed precision: autocast with GradScaler, or apex levels O0 to O3",
		Options: options,
	}}
}

// NewNone returns the plugin "none".
func NewNone() *Precision {
	return &Precision{none: true, info: sdk.Info{
		Kind: sdk.KindPrecision, Name: "none", Version: version, Summary: "float32 throughout",
	}}
}

// Info describes the plugin.
func (p *Precision) Info() sdk.Info { return p.info }

// Policy reads the options; illegal combinations are errors that name the key.
func (p *Precision) Policy(_ context.Context, o sdk.Options) (sdk.Policy, error) {
	if p.none {
		p.scaler = &static{scale: 1}
		return sdk.Policy{Name: "none", Params: tensor.F32, Scale: 1}, nil
	}
	s, err := read(o)
	if err != nil {
		return sdk.Policy{}, err
	}
	p.scaler = s.scaleKeeper()
	return s.policy(), nil
}

var errOrder = errors.New("amp: called before Policy")

// Update moves the loss scale after a step.
func (p *Precision) Update(_ context.Context, foundInf bool) (sdk.ScaleState, error) {
	if p.scaler == nil {
		return sdk.ScaleState{}, errOrder
	}
	return p.scaler.update(foundInf), nil
}

// State returns the scaler's part of a checkpoint; empty for a fixed scale.
func (p *Precision) State(context.Context) (map[string]float64, error) {
	if p.scaler == nil {
		return nil, errOrder
	}
	return p.scaler.state(), nil
}

// Load restores a state returned by State.
func (p *Precision) Load(_ context.Context, m map[string]float64) error {
	if p.scaler == nil {
		return errOrder
	}
	return p.scaler.load(m)
}

// Close does nothing.
func (p *Precision) Close() error { return nil }

var _ sdk.Precision = (*Precision)(nil)
