package sdktest

import (
	"context"
	"errors"
	"maps"
	"testing"

	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/tensor"
)

// halving is a precision plugin whose every answer a test can bend: it halves
// the scale when something overflowed, and doubles it after four good steps.
type halving struct {
	info   func(*sdk.Info)
	policy func(*sdk.Policy)
	update func(*sdk.ScaleState)
	load   func(map[string]float64)
	close  func() error

	lenient bool // accept every option

	scale float64
	good  int
	row   uint64
}

func (h *halving) Info() sdk.Info {
	i := sdk.Info{Kind: sdk.KindPrecision, Name: "halving", Version: "1", Summary: "a model", Options: []sdk.Option{
		{Name: "init_scale", Type: sdk.Float, Default: 1024.0, Doc: "First scale."},
	}}
	if h.info != nil {
		h.info(&i)
	}
	return i
}

func (h *halving) Policy(_ context.Context, o sdk.Options) (sdk.Policy, error) {
	h.scale = o.Float("init_scale")
	if h.scale <= 0 && !h.lenient {
		return sdk.Policy{}, errors.New("init_scale must be positive")
	}
	p := sdk.Policy{Name: "halving", Params: tensor.F32, Lower: tensor.F16, Scale: h.scale, Dynamic: true}
	if h.policy != nil {
		h.policy(&p)
	}
	return p, nil
}

func (h *halving) Update(_ context.Context, foundInf bool) (sdk.ScaleState, error) {
	if foundInf {
		h.scale, h.good, h.row = max(h.scale/2, 1), 0, h.row+1
	} else if h.good, h.row = h.good+1, 0; h.good == 4 {
		h.scale, h.good = min(2*h.scale, 1<<20), 0
	}
	s := sdk.ScaleState{Scale: h.scale, Skip: foundInf, Skipped: h.row}
	if h.update != nil {
		h.update(&s)
	}
	return s, nil
}

func (h *halving) State(context.Context) (map[string]float64, error) {
	return map[string]float64{"scale": h.scale, "good": float64(h.good)}, nil
}

func (h *halving) Load(_ context.Context, m map[string]float64) error {
	m = maps.Clone(m)
	if h.load != nil {
		h.load(m)
	}
	h.scale, h.good, h.row = m["scale"], int(m["good"]), 0
	return nil
}

func (h *halving) Close() error {
	if h.close != nil {
		return h.close()
	}
	return nil
}

func halvings(bend func(*halving)) PrecisionOptions {
	return PrecisionOptions{
		New: func(testing.TB) sdk.Precision {
			h := &halving{}
			bend(h)
			return h
		},
		Refused: map[string]map[string]any{"init_scale": {"init_scale": -1.0}},
	}
}

func TestSuitePassesAGoodPrecision(t *testing.T) {
	Precision(t, halvings(func(*halving) {}))
}

func TestSuiteFindsFaultsOfPrecision(t *testing.T) {
	onPolicy := func(f func(*sdk.Policy)) func(*halving) { return func(h *halving) { h.policy = f } }
	onUpdate := func(f func(*sdk.ScaleState)) func(*halving) { return func(h *halving) { h.update = f } }
	made, closed := 0.0, 0
	for name, c := range map[string]struct {
		check func(context.Context, *precisionSuite) error
		bend  func(*halving)
	}{
		"another kind":       {checkPrecisionInfo, func(h *halving) { h.info = func(i *sdk.Info) { i.Kind = sdk.KindDataset } }},
		"accepts everything": {checkPrecisionRefused, func(h *halving) { h.lenient = true }},
		"integer parameters": {checkPolicy, onPolicy(func(p *sdk.Policy) { p.Params = tensor.I32 })},
		"wide lower type":    {checkPolicy, onPolicy(func(p *sdk.Policy) { p.Lower = tensor.F64 })},
		"no lower type": {checkPolicy, onPolicy(func(p *sdk.Policy) {
			p.Lower, p.Casts = tensor.Invalid, map[string]sdk.Cast{"linear": sdk.CastLower}
		})},
		"copies of copies":  {checkPolicy, onPolicy(func(p *sdk.Policy) { p.MasterWeights = true })},
		"no scale":          {checkPolicy, onPolicy(func(p *sdk.Policy) { p.Scale = 0 })},
		"policies differ":   {checkPolicies, onPolicy(func(p *sdk.Policy) { made++; p.Scale = made })},
		"scales differ":     {checkScales, onUpdate(func(s *sdk.ScaleState) { made++; s.Scale = made })},
		"scale vanishes":    {checkScales, onUpdate(func(s *sdk.ScaleState) { s.Scale = 0 })},
		"never skips":       {checkSkips, onUpdate(func(s *sdk.ScaleState) { s.Skip, s.Skipped = false, 0 })},
		"skips when static": {checkSkips, onPolicy(func(p *sdk.Policy) { p.Dynamic = false })},
		"counts wrongly":    {checkSkips, onUpdate(func(s *sdk.ScaleState) { s.Skipped *= 2 })},
		"forgets":           {checkState, func(h *halving) { h.load = func(m map[string]float64) { delete(m, "good") } }},
		"closes once": {checkPrecisionClose, func(h *halving) {
			h.close = func() error {
				if closed++; closed > 2 {
					return errors.New("closed already")
				}
				return nil
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			if err := c.check(t.Context(), &precisionSuite{PrecisionOptions: halvings(c.bend), t: t}); err == nil {
				t.Error("the suite did not notice")
			}
		})
	}
}
