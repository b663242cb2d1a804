package amp

import (
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/sdk/sdktest"
	"github.com/trainctl/trainctl/core/tensor"
)

func policy(t *testing.T, given map[string]any) (*Precision, sdk.Policy, error) {
	t.Helper()
	p := New()
	o, problems := sdk.CheckOptions("precision.options", p.Info().Options, given)
	if len(problems) > 0 {
		t.Fatalf("%v: %v", given, problems)
	}
	pol, err := p.Policy(t.Context(), o)
	return p, pol, err
}

// The property table of apex/amp/frontend.py, release 24.01.
func TestLevelsHaveApexProperties(t *testing.T) {
	for level, want := range map[string][]string{
		"O0": {"fp32", "False", "None", "False", "1"},
		"O1": {"None", "True", "None", "None", "dynamic"},
		"O2": {"fp16", "False", "True", "True", "dynamic"},
		"O3": {"fp16", "False", "False", "False", "1"},
	} {
		_, p, err := policy(t, map[string]any{"level": level})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, kv := range p.Properties {
			got = append(got, kv[1])
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: %s", level, d)
		}
	}
}

func TestPolicies(t *testing.T) {
	for _, c := range []struct {
		given map[string]any
		want  sdk.Policy
	}{
		{nil, sdk.Policy{Name: "autocast bf16", Params: tensor.F32, Lower: tensor.BF16, Scale: 1}},
		{map[string]any{"dtype": "fp16"}, sdk.Policy{Name: "autocast fp16", Params: tensor.F32, Lower: tensor.F16, Scale: 65536, Dynamic: true}},
		{map[string]any{"dtype": "fp16", "loss_scale": "128"}, sdk.Policy{Name: "autocast fp16", Params: tensor.F32, Lower: tensor.F16, Scale: 128}},
		{map[string]any{"level": "O1"}, sdk.Policy{Name: "O1 fp16", Params: tensor.F32, Lower: tensor.F16, Scale: 65536, Dynamic: true}},
		{map[string]any{"level": "O1", "dtype": "bf16"}, sdk.Policy{Name: "O1 bf16", Params: tensor.F32, Lower: tensor.BF16, Scale: 1}},
		{map[string]any{"level": "O2"}, sdk.Policy{Name: "O2 fp16", Params: tensor.F16, BatchNormF32: true, MasterWeights: true, Scale: 65536, Dynamic: true}},
		{map[string]any{"level": "O2", "max_loss_scale": 1024.0}, sdk.Policy{Name: "O2 fp16", Params: tensor.F16, BatchNormF32: true, MasterWeights: true, Scale: 1024, Dynamic: true}},
		{map[string]any{"level": "O3", "keep_batchnorm_fp32": true}, sdk.Policy{Name: "O3 fp16", Params: tensor.F16, BatchNormF32: true, Scale: 1}},
		{map[string]any{"level": "O0"}, sdk.Policy{Name: "O0", Params: tensor.F32, Scale: 1}},
	} {
		_, got, err := policy(t, c.given)
		if err != nil {
			t.Errorf("%v: %v", c.given, err)
			continue
		}
		if lists := got.Casts; (lists != nil) != got.Lower.Valid() || lists != nil && (lists["conv2d"] != sdk.CastLower || lists["cross_entropy"] != sdk.CastF32 || lists["batchnorm2d"] != sdk.CastNone) {
			t.Errorf("%v: casts %v", c.given, lists)
		}
		got.Casts, got.Properties = nil, nil
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("%v: %s", c.given, d)
		}
	}
}

func TestIllegalCombinationsAreRefused(t *testing.T) {
	for _, c := range []struct {
		given map[string]any
		want  string
	}{
		{map[string]any{"level": "O1", "keep_batchnorm_fp32": true}, "keep_batchnorm_fp32 cannot be combined with O1"},
		{map[string]any{"level": "O1", "master_weights": true}, "master_weights cannot be combined with O1"},
		{map[string]any{"level": "O0", "master_weights": true}, "master_weights cannot be combined with O0"},
		{map[string]any{"level": "O0", "dtype": "fp16"}, "dtype cannot be combined with O0"},
		{map[string]any{"master_weights": true}, "master_weights only applies with a level"},
		{map[string]any{"init_scale": 8.0}, "init_scale needs a dynamic loss scale"},
		{map[string]any{"level": "O3", "growth_interval": int64(5)}, "growth_interval needs a dynamic loss scale"},
		{map[string]any{"dtype": "fp16", "max_loss_scale": 8.0}, "max_loss_scale only applies with a level"},
		{map[string]any{"dtype": "fp16", "loss_scale": "big"}, `loss_scale = "big"`},
		{map[string]any{"dtype": "fp16", "loss_scale": "-1"}, `loss_scale = "-1"`},
		{map[string]any{"dtype": "fp16", "growth_factor": 1.0}, "growth_factor = 1 is not above 1"},
		{map[string]any{"dtype": "fp16", "backoff_factor": 1.0}, "backoff_factor = 1 is not below 1"},
		{map[string]any{"level": "O2", "init_scale": 4.0, "min_loss_scale": 8.0}, "init_scale = 4 is outside"},
	} {
		if _, _, err := policy(t, c.given); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: want %q, got %v", c.given, c.want, err)
		}
	}
}

func trace(t *testing.T, p *Precision, found ...bool) (scales []float64, skips []bool) {
	t.Helper()
	for _, f := range found {
		s, err := p.Update(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		scales, skips = append(scales, s.Scale), append(skips, s.Skip)
	}
	return scales, skips
}

// GradScaler of PyTorch 2.15 with interval 3 and one overflow.
func TestGradScalerTrace(t *testing.T) {
	p, _, err := policy(t, map[string]any{"dtype": "fp16", "growth_interval": int64(3)})
	if err != nil {
		t.Fatal(err)
	}
	scales, skips := trace(t, p, false, false, false, true, false, false, false)
	if d := cmp.Diff([]float64{65536, 65536, 131072, 65536, 65536, 65536, 131072}, scales); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]bool{false, false, false, true, false, false, false}, skips); d != "" {
		t.Error(d)
	}
	s, err := p.Update(t.Context(), true)
	for range 2 {
		s, err = p.Update(t.Context(), true)
	}
	if err != nil || s.Skipped != 3 {
		t.Errorf("three skips in a row are counted as %d, %v", s.Skipped, err)
	}
}

// The scale is a float32: it stops growing before it is infinite.
func TestGradScalerStaysFinite(t *testing.T) {
	p, _, err := policy(t, map[string]any{"dtype": "fp16", "growth_interval": int64(1), "init_scale": 1e38})
	if err != nil {
		t.Fatal(err)
	}
	scales, _ := trace(t, p, false, false, false)
	if f := float64(float32(1e38)); scales[0] != 2*f || scales[1] != 2*f || scales[2] != 2*f {
		t.Errorf("scales %v", scales)
	}
}

// apex's scaler has limits on both sides.
func TestApexScalerTrace(t *testing.T) {
	p, _, err := policy(t, map[string]any{"level": "O2", "growth_interval": int64(2), "max_loss_scale": 131072.0, "min_loss_scale": 32768.0})
	if err != nil {
		t.Fatal(err)
	}
	scales, _ := trace(t, p, false, false, false, false, true, true, true, true, false, false)
	if d := cmp.Diff([]float64{65536, 131072, 131072, 131072, 65536, 32768, 32768, 32768, 32768, 65536}, scales); d != "" {
		t.Error(d)
	}
}

func TestStaticScaleNeverSkips(t *testing.T) {
	p, _, err := policy(t, map[string]any{"level": "O3"})
	if err != nil {
		t.Fatal(err)
	}
	if scales, skips := trace(t, p, true, true); scales[1] != 1 || skips[1] {
		t.Errorf("scales %v, skips %v", scales, skips)
	}
}

// A scaler that continues from a state gives the same trace as one that went on.
func TestStateContinues(t *testing.T) {
	for _, given := range []map[string]any{
		{"dtype": "fp16", "growth_interval": int64(3)},
		{"level": "O1", "growth_interval": int64(3)},
	} {
		a, _, err := policy(t, given)
		if err != nil {
			t.Fatal(err)
		}
		trace(t, a, false, true, false, false)
		state, err := a.State(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		b, _, _ := policy(t, given)
		if err := b.Load(t.Context(), state); err != nil {
			t.Fatal(err)
		}
		next := []bool{false, false, true, false, false, false}
		want, _ := trace(t, a, next...)
		got, _ := trace(t, b, next...)
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%v: %s", given, d)
		}
		if err := b.Load(t.Context(), map[string]float64{}); err == nil {
			t.Errorf("%v: an empty state was loaded into a dynamic scaler", given)
		}
	}
	p, _, _ := policy(t, nil)
	if s, err := p.State(t.Context()); err != nil || len(s) != 0 {
		t.Errorf("a fixed scale has state %v, %v", s, err)
	}
}

// The conformance suite, on each kind of scaler.
func TestContract(t *testing.T) {
	for name, given := range map[string]map[string]any{
		"GradScaler": {"dtype": "fp16", "growth_interval": int64(3)},
		"apex":       {"level": "O2", "growth_interval": int64(3)},
		"bf16":       nil,
	} {
		t.Run(name, func(t *testing.T) {
			sdktest.Precision(t, sdktest.PrecisionOptions{
				New:     func(testing.TB) sdk.Precision { return New() },
				Options: given,
				Refused: map[string]map[string]any{"level": {"level": "O9"}, "backoff_factor": {"dtype": "fp16", "backoff_factor": 1.0}},
			})
		})
	}
	t.Run("none", func(t *testing.T) {
		sdktest.Precision(t, sdktest.PrecisionOptions{New: func(testing.TB) sdk.Precision { return NewNone() }})
	})
}

// The lists have what torch.autocast's and apex's have: an operation's class does
// not change by mistake.
func TestLists(t *testing.T) {
	autocast := map[string]sdk.Cast{"conv2d": sdk.CastLower, "linear": sdk.CastLower, "cross_entropy": sdk.CastF32, "mse": sdk.CastF32}
	apex := maps.Clone(autocast)
	apex["gelu"], apex["layernorm"], apex["add"] = sdk.CastF32, sdk.CastF32, sdk.CastPromote
	for name, c := range apex {
		if got := autocastLists()[name]; got != autocast[name] {
			t.Errorf("autocast: %s is %v, want %v", name, got, autocast[name])
		}
		if got := o1Lists()[name]; got != c {
			t.Errorf("O1: %s is %v, want %v", name, got, c)
		}
	}
	for _, lists := range []map[string]sdk.Cast{autocastLists(), o1Lists()} {
		for _, name := range []string{"batchnorm2d", "relu", "tanh", "sigmoid", "maxpool2d", "avgpool2d", "dropout", "flatten", "embedding"} {
			if c, ok := lists[name]; ok {
				t.Errorf("%s is %v", name, c)
			}
		}
	}
}
