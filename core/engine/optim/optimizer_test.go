package optim

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/trainctl/trainctl/core/engine/kernel/convert"
	"github.com/trainctl/trainctl/core/tensor"
)

func optionSets() map[string]Config {
	sgd, ams := DefaultFor("sgd"), DefaultFor("adamw")
	sgd.Momentum, sgd.Nesterov, sgd.WeightDecay = 0.9, true, 0.01
	ams.AMSGrad = true
	return map[string]Config{"sgd": DefaultFor("sgd"), "momentum": sgd, "adam": DefaultFor("adam"), "adamw amsgrad": ams}
}

// params makes one parameter of each kind that can be trained, with fixed content.
func params() []Param {
	ps := []Param{
		{Name: "f32", Value: tensor.New(tensor.F32, 5), Grad: tensor.New(tensor.F32, 5)},
		{Name: "f64", Value: tensor.New(tensor.F64, 2, 2), Grad: tensor.New(tensor.F64, 2, 2)},
		{Name: "f16", Value: tensor.New(tensor.F16, 3), Grad: tensor.New(tensor.F16, 3), Master: tensor.New(tensor.F32, 3)},
		{Name: "bf16", Value: tensor.New(tensor.BF16, 7), Grad: tensor.New(tensor.BF16, 7), Master: tensor.New(tensor.F32, 7)},
		{Name: "bf16 with f32 gradient", Value: tensor.New(tensor.BF16, 2), Grad: tensor.New(tensor.F32, 2), Master: tensor.New(tensor.F32, 2)},
	}
	for _, p := range ps {
		for i := range p.Grad.Shape.Elems() {
			p.Grad.Set(i, 0.25*float64(i%3)-0.3)
		}
	}
	return ps
}

func mustNew(t testing.TB, c Config, ps []Param) *Optimizer {
	t.Helper()
	o, err := New(c, ps)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// A run that was saved and loaded goes on bit for bit like one that was not.
func TestStateResumesExactly(t *testing.T) {
	for name, c := range optionSets() {
		t.Run(name, func(t *testing.T) {
			whole, first, second := params(), params(), params()
			a, b := mustNew(t, c, whole), mustNew(t, c, first)
			for range 3 {
				a.Step(0.1)
				b.Step(0.1)
			}
			resumed := mustNew(t, c, second)
			for i := range second { // the model's tensors come from the checkpoint too
				copy(second[i].Value.Data, first[i].Value.Data)
			}
			if err := resumed.Load(b.State()); err != nil {
				t.Fatal(err)
			}
			if *resumed.count() != 3 {
				t.Fatalf("%d steps applied", *resumed.count())
			}
			a.Step(0.05)
			resumed.Step(0.05)
			for i := range whole {
				if d := cmp.Diff(whole[i], second[i]); d != "" {
					t.Error(d)
				}
			}
			if d := cmp.Diff(a.State(), resumed.State()); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestStateNames(t *testing.T) {
	c := DefaultFor("adam")
	c.AMSGrad = true
	o := mustNew(t, c, params()[2:3])
	var names []string
	for _, s := range o.State() {
		names = append(names, s.Name)
	}
	want := []string{"step", "exp_avg.f16", "exp_avg_sq.f16", "max_exp_avg_sq.f16", "master.f16"}
	if d := cmp.Diff(want, names); d != "" {
		t.Error(d)
	}
}

func TestLoadListsWhatDoesNotFit(t *testing.T) {
	adam := mustNew(t, DefaultFor("adam"), params()[:1])
	c := DefaultFor("sgd")
	c.Momentum = 0.9
	err := mustNew(t, c, params()[:1]).Load(adam.State())
	for _, s := range []string{"momentum_buffer.f32 is missing", "exp_avg.f32 belongs to no parameter", "exp_avg_sq.f32", `name = "sgd"`} {
		if err == nil || !strings.Contains(err.Error(), s) {
			t.Errorf("%q is not in %v", s, err)
		}
	}
}

// Without a master copy a half parameter and its momentum are rounded in every
// step, and nothing finer is kept: a step of less than half a unit is lost.
func TestHalfParametersWithoutAMaster(t *testing.T) {
	c := DefaultFor("sgd")
	c.Momentum = 0.9
	for _, d := range []tensor.DType{tensor.BF16, tensor.F16} {
		p := Param{Name: "w", Value: tensor.New(d, 3), Grad: tensor.New(d, 3)}
		o := mustNew(t, c, []Param{p})
		state := o.State()
		if len(state) != 2 || state[1].DType != d {
			t.Fatalf("state of %v: %v", d, state)
		}
		want, buf := []float64{1, -0.5, 3}, make([]float64, 3)
		for i, w := range want {
			p.Value.Set(i, w)
		}
		for step := range 20 {
			for i := range want {
				g := 0.3*float64(i+1) - 0.01*float64(step)
				p.Grad.Set(i, g)
				g = round(d, g)
				if step == 0 {
					buf[i] = g
				} else {
					buf[i] = round(d, float64(float32(0.9)*float32(buf[i])+float32(g)))
				}
				want[i] = round(d, float64(float32(want[i])-float32(1.0/128)*float32(buf[i])))
			}
			o.Step(1.0 / 128)
			for i, w := range want {
				if got := value(p.Value, i); math.Abs(got-w) > 2*unit(d)*math.Abs(w) {
					t.Fatalf("%v, step %d: %v, want %v", d, step, got, w)
				}
			}
		}
		lost := Param{Name: "w", Value: tensor.New(d, 1), Grad: tensor.New(d, 1)}
		lost.Value.Set(0, 1)
		lost.Grad.Set(0, 1)
		plain := mustNew(t, DefaultFor("sgd"), []Param{lost})
		for range 64 {
			plain.Step(unit(d) / 4)
		}
		if got := value(lost.Value, 0); got != 1 {
			t.Errorf("%v: steps below the rounding moved 1 to %v", d, got)
		}
	}
}

// unit is the distance from 1 to the next number of a half type.
func unit(d tensor.DType) float64 {
	if d == tensor.F16 {
		return 1.0 / 1024
	}
	return 1.0 / 128
}

func value(v tensor.Tensor, i int) float64 {
	h := tensor.View[uint16](v.Data)[i]
	if v.DType == tensor.F16 {
		return float64(tensor.F32FromF16(h))
	}
	return float64(tensor.F32FromBF16(h))
}

func round(d tensor.DType, x float64) float64 {
	one := tensor.New(d, 1)
	one.Set(0, x)
	return value(one, 0)
}

// Half parameters move by their float32 copies: steps too small for a half add up.
func TestHalfParametersUseTheirMaster(t *testing.T) {
	p := Param{Name: "w", Value: tensor.New(tensor.BF16, 1), Grad: tensor.New(tensor.BF16, 1), Master: tensor.New(tensor.F32, 1)}
	p.Value.Set(0, 1)
	p.Master.F32()[0] = 1
	p.Grad.Set(0, 1)
	o := mustNew(t, DefaultFor("sgd"), []Param{p})
	for range 64 {
		o.Step(1.0 / 1024)
	}
	if got := p.Master.F32()[0]; got != 1-1.0/16 {
		t.Errorf("master %v", got)
	}
	if got := tensor.F32FromBF16(tensor.View[uint16](p.Value.Data)[0]); got != 0.9375 {
		t.Errorf("value %v", got)
	}
}

// Unscaling must not lose what only the scale kept representable.
func TestHalfGradientsAreUnscaledInF32(t *testing.T) {
	const scale, grad = 65536, 1e-9
	p := Param{Name: "w", Value: tensor.New(tensor.F16, 1), Grad: tensor.New(tensor.F16, 1), Master: tensor.New(tensor.F32, 1)}
	p.Grad.Set(0, grad*scale)
	seen := float64(tensor.F32FromF16(tensor.View[uint16](p.Grad.Data)[0])) / scale
	o := mustNew(t, DefaultFor("sgd"), []Param{p})
	o.ScaleGrads(1.0 / scale)
	if n := o.gradNorm(); math.Abs(n-seen) > 1e-12*seen {
		t.Errorf("norm %v, want %v", n, seen)
	}
	o.ClipNorm(seen / 2)
	o.Step(1)
	if got := -float64(p.Master.F32()[0]); math.Abs(got-seen/2) > 1e-3*seen { // 1e-6 weighs in the clipping
		if want := seen * (seen / 2) / (seen + 1e-6); math.Abs(got-want) > 1e-6*want {
			t.Errorf("moved by %v, want %v", got, want)
		}
	}
	o.Step(1)
	if got := -float64(p.Master.F32()[0]); got < grad*scale/2 {
		t.Errorf("the factor of one step is still there in the next: moved %v in all", got)
	}
}

func TestAllFinite(t *testing.T) {
	for _, d := range []tensor.DType{tensor.F32, tensor.F64, tensor.F16, tensor.BF16} {
		x := tensor.New(d, 37)
		for i := range 37 {
			x.Set(i, math.Pow(-2, float64(i%10)))
		}
		if !AllFinite(x) {
			t.Errorf("%v: finite values refused", d)
		}
		for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
			x.Set(36, bad)
			if AllFinite(x) {
				t.Errorf("%v: %v not seen", d, bad)
			}
		}
	}
}

func TestStepDoesNotAllocate(t *testing.T) {
	for name, c := range optionSets() {
		o := mustNew(t, c, params())
		n := testing.AllocsPerRun(20, func() {
			o.ScaleGrads(0.5)
			o.ClipNorm(0.1)
			if !o.GradsFinite() {
				t.Fatal("not finite")
			}
			o.Step(0.1)
		})
		if n != 0 {
			t.Errorf("%s: %v allocations in a step", name, n)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	f32, f16 := tensor.New(tensor.F32, 2), tensor.New(tensor.F16, 2)
	for says, p := range map[string][]Param{
		"twice":               {{Name: "a", Value: f32, Grad: f32}, {Name: "a", Value: f32, Grad: f32}},
		"master copy must be": {{Name: "a", Value: f16, Grad: f16, Master: f16}},
		"takes no master":     {{Name: "a", Value: f32, Grad: f32, Master: f32}},
		"cannot be train":     {{Name: "a", Value: tensor.New(tensor.I64, 2), Grad: f32}},
		"gradient is f16":     {{Name: "a", Value: tensor.New(tensor.F64, 2), Grad: f16}},
		"differ in shape":     {{Name: "a", Value: f32, Grad: tensor.New(tensor.F32, 3)}},
		"gradient is f64,":    {{Name: "a", Value: f32, Grad: tensor.New(tensor.F64, 2)}},
	} {
		if _, err := New(DefaultFor("sgd"), p); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("want an error with %q, got %v", says, err)
		}
	}
}

func TestProblems(t *testing.T) {
	for _, name := range Names() {
		if p := DefaultFor(name).Problems(); p != nil {
			t.Error(p)
		}
	}
	for says, change := range map[string]func(*Config){
		"unknown optimizer": func(c *Config) { c.Name = "sdg" },
		"not a finite":      func(c *Config) { c.Name, c.TrustCoefficient = "lars", math.Inf(1) },
		"Nesterov":          func(c *Config) { c.Nesterov = true },
		"≥ 0":               func(c *Config) { c.LR = math.NaN() },
		"outside [0, 1)":    func(c *Config) { c.Name, c.Betas = "adam", [2]float64{0.9, 1} },
		"adam has no mom":   func(c *Config) { c.Name, c.Momentum = "adam", 0.9 },
	} {
		c := DefaultFor("sgd")
		change(&c)
		if p := c.Problems(); len(p) != 1 || !strings.Contains(p[0].String(), says) {
			t.Errorf("want one problem with %q, got %v", says, p)
		}
	}
	if p := DefaultSchedule().Problems(); p != nil {
		t.Error(p)
	}
	bad := ScheduleConfig{Name: "multistep", Unit: "day", Milestones: []int{3, 1}, Gamma: -1, WarmupSteps: -1, WarmupFactor: 2, BatchScaling: "cube"}
	if p := bad.Problems(); len(p) != 6 {
		t.Error(p)
	}
}

func TestScheduleWholeRun(t *testing.T) {
	for _, name := range []string{"cosine", "linear"} {
		c := DefaultSchedule()
		c.Name = name
		s, err := NewSchedule(c, 1, 10, 35) // four epochs, the last one cut
		if err != nil {
			t.Fatal(err)
		}
		if s.LR(0) != 1 || s.LR(9) != 1 || math.Abs(s.LR(20)-0.5) > 1e-15 || s.LR(34) >= 0.5 {
			t.Errorf("%s: %v %v %v %v", name, s.LR(0), s.LR(9), s.LR(20), s.LR(34))
		}
	}
}

// A parameter without a gradient is left alone, and counts its own steps, also
// after a resume. A state that was saved without such counts has the common one.
func TestUnusedParametersStayAsTheyAre(t *testing.T) {
	c := DefaultFor("adam")
	c.WeightDecay = 0.1
	optional := func(on bool) []Param {
		ps := params()
		for i := range ps {
			ps[i].Optional = on
		}
		return ps
	}
	whole, plain := optional(true), optional(false)
	o, common := mustNew(t, c, whole), mustNew(t, c, plain)
	before := tensor.New(tensor.F32, 5)
	for step := range 4 {
		o.Use(0, step != 1)
		copy(before.Data, whole[0].Value.Data)
		o.Step(0.1)
		if same := cmp.Equal(before.Data, whole[0].Value.Data); same != (step == 1) {
			t.Errorf("step %d: unchanged is %v", step, same)
		}
		if step != 1 { // the unused parameter is where three plain steps lead
			common.Step(0.1)
		}
	}
	plain[0].Optional = true
	if d := cmp.Diff(plain[0], whole[0]); d != "" {
		t.Error(d)
	}
	resumed := mustNew(t, c, optional(true))
	if err := resumed.Load(o.State()); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(o.State(), resumed.State()); d != "" {
		t.Error(d)
	}
	if err := resumed.Load(common.State()); err != nil {
		t.Fatal(err)
	}
	for _, s := range resumed.State() {
		if strings.HasPrefix(s.Name, "step") && s.I64()[0] != 3 {
			t.Errorf("%s is %d", s.Name, s.I64()[0])
		}
	}
}

// LARS makes updates as large in proportion to every parameter, whatever the
// gradients; one without a norm moves as with SGD.
func TestLARSIsInProportion(t *testing.T) {
	cfg := DefaultFor("lars")
	cfg.TrustCoefficient, cfg.Eps = 0.5, 0
	params := []Param{
		{Name: "weight", Value: tensor.New(tensor.F32, 2), Grad: tensor.New(tensor.F32, 2)},
		{Name: "half", Value: tensor.New(tensor.BF16, 2), Grad: tensor.New(tensor.BF16, 2), Master: tensor.New(tensor.F32, 2)},
		{Name: "zero", Value: tensor.New(tensor.F32, 2), Grad: tensor.New(tensor.F32, 2)},
	}
	copy(params[0].Value.F32(), []float32{3, 4})
	copy(params[0].Grad.F32(), []float32{600, -800})
	copy(params[1].Master.F32(), []float32{3, 4})
	convert.Convert(tensor.BF16, params[1].Grad.Data, tensor.F32, tensor.Bytes([]float32{0.6, -0.8}))
	copy(params[2].Grad.F32(), []float32{1, 2})
	o, err := New(cfg, params)
	if err != nil {
		t.Fatal(err)
	}
	o.Step(0.1)
	for what, c := range map[string][2][]float32{
		"weight": {params[0].Value.F32(), {2.85, 4.2}}, // 0.1 · 0.5 · 5 along the gradient's direction
		"half":   {params[1].Master.F32(), {2.85, 4.2}},
		"zero":   {params[2].Value.F32(), {-0.1, -0.2}},
	} {
		for i := range c[0] {
			if math.Abs(float64(c[0][i]-c[1][i])) > 1e-2*math.Abs(float64(c[1][i])) {
				t.Errorf("%s: %v, want %v", what, c[0], c[1])
			}
		}
	}
}

// Rates follow the batch by the rule, and only where a run began with another one.
func TestBatchScaling(t *testing.T) {
	for rule, want := range map[string]float64{"none": 1, "linear": 4, "sqrt": 2} {
		c := ScheduleConfig{BatchScaling: rule}
		if got := c.BatchFactor(8, 32); got != want {
			t.Errorf("%s: factor %v, want %v", rule, got, want)
		}
		if c.BatchFactor(8, 8) != 1 || c.BatchFactor(0, 8) != 1 {
			t.Errorf("%s: a factor without another batch", rule)
		}
	}
}
