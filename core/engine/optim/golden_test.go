package optim

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/trainctl/trainctl/core/base/testjson"
	"github.com/trainctl/trainctl/core/tensor"
)

// exact is a number as Python's float.hex writes it.
type exact float64

func (e *exact) UnmarshalJSON(b []byte) error {
	s := strings.Trim(string(b), `"`)
	if !strings.Contains(s, "p") {
		return fmt.Errorf("%s is not a hexadecimal float", s)
	}
	f, err := strconv.ParseFloat(s, 64)
	*e = exact(f)
	return err
}

type golden struct {
	Start []exact
	Grads [][]exact
	Runs  []goldenRun
	// Grouped are runs over four parameters: with 3 times the learning rate, with half of it and
	// another weight decay, with the optimizer's settings, and without a gradient.
	Grouped []struct {
		Config map[string]any
		Norms  []exact
		Params [][][]exact
	}
	Cycled   []goldenRun // under OneCycleLR over the six steps
	Averaged []struct {
		Decay    float64
		Averages [][]exact
	}
	Clip []struct {
		MaxNorm float64 `json:"max_norm"`
		Total   exact
		Grads   [][]exact
	}
}

type goldenRun struct {
	Config map[string]any
	Params [][]exact
}

func number(m map[string]any, key string) float64 {
	v, _ := m[key].(float64)
	return v
}

func configOf(m map[string]any) Config {
	c := DefaultFor(m["name"].(string))
	c.LR, c.Momentum, c.Dampening = number(m, "lr"), number(m, "momentum"), number(m, "dampening")
	c.Nesterov, _ = m["nesterov"].(bool)
	c.WeightDecay = number(m, "weight_decay")
	if c.Name == "lars" {
		c.TrustCoefficient = number(m, "trust_coefficient")
	}
	if c.Name == "rmsprop" {
		c.Alpha = number(m, "alpha")
	}
	c.Centered, _ = m["centered"].(bool)
	c.AMSGrad, _ = m["amsgrad"].(bool)
	c.Maximize, _ = m["maximize"].(bool)
	if b, ok := m["betas"].([]any); ok {
		c.Betas = [2]float64{b[0].(float64), b[1].(float64)}
	}
	return c
}

func values(t tensor.Tensor) []float64 {
	if t.DType == tensor.F64 {
		return t.F64()
	}
	out := make([]float64, t.Shape.Elems())
	for i, v := range t.F32() {
		out[i] = float64(v)
	}
	return out
}

func set(t tensor.Tensor, v []exact) {
	for i, x := range v {
		if t.DType == tensor.F64 {
			t.F64()[i] = float64(x)
		} else {
			t.F32()[i] = float32(x)
		}
	}
}

// tolerance is a few units in the last place: PyTorch may fuse a product and a sum.
var tolerance = map[tensor.DType]float64{tensor.F32: 1e-6, tensor.F64: 4e-15}

func near(t *testing.T, what string, got []float64, want []exact, tol float64) {
	t.Helper()
	for i := range want {
		if w := float64(want[i]); math.Abs(got[i]-w) > tol*max(1, math.Abs(w)) || math.IsNaN(got[i]) {
			t.Fatalf("%s, element %d: %v, PyTorch has %v", what, i, got[i], w)
		}
	}
}

func goldens(t *testing.T, f func(t *testing.T, d tensor.DType, g golden)) {
	all := testjson.Read[map[string]golden](t, "testdata/optimizers.json")
	for name, g := range all {
		d, err := tensor.ParseDType(name)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(name, func(t *testing.T) { f(t, d, g) })
	}
}

func TestAgainstPyTorch(t *testing.T) {
	goldens(t, func(t *testing.T, d tensor.DType, g golden) {
		for _, r := range g.Runs {
			t.Run(fmt.Sprint(r.Config), func(t *testing.T) {
				p := Param{Name: "w", Value: tensor.New(d, 2, 4), Grad: tensor.New(d, 2, 4)}
				set(p.Value, g.Start)
				o, err := New(configOf(r.Config), []Param{p})
				if err != nil {
					t.Fatal(err)
				}
				for i, want := range r.Params {
					set(p.Grad, g.Grads[i])
					o.Step(number(r.Config, "lr"))
					near(t, fmt.Sprintf("step %d", i+1), values(p.Value), want, tolerance[d])
				}
			})
		}
	})
}

// Of a matrix and a vector, decay = "matrices" decays the matrix as PyTorch decays
// the group that has weight_decay, and the vector not at all.
func TestDecayOfMatrices(t *testing.T) {
	goldens(t, func(t *testing.T, d tensor.DType, g golden) {
		for _, r := range g.Runs {
			without := maps.Clone(r.Config)
			without["weight_decay"] = 0.0
			i := slices.IndexFunc(g.Runs, func(other goldenRun) bool {
				return maps.EqualFunc(other.Config, without, func(a, b any) bool { return fmt.Sprint(a) == fmt.Sprint(b) })
			})
			cfg := configOf(r.Config)
			cfg.Decay = DecayMatrices
			params := []Param{
				{Name: "matrix", Value: tensor.New(d, 2, 4), Grad: tensor.New(d, 2, 4)},
				{Name: "vector", Value: tensor.New(d, 8), Grad: tensor.New(d, 8)},
			}
			o, err := New(cfg, params)
			check(t, err)
			for _, p := range params {
				set(p.Value, g.Start)
			}
			for step := range r.Params {
				for _, p := range params {
					set(p.Grad, g.Grads[step])
				}
				o.Step(number(r.Config, "lr"))
				near(t, fmt.Sprint(r.Config, ": the matrix"), values(params[0].Value), r.Params[step], tolerance[d])
				near(t, fmt.Sprint(r.Config, ": the vector"), values(params[1].Value), g.Runs[i].Params[step], tolerance[d])
			}
		}
	})
}

// Groups are PyTorch's param_groups: by scale, decay, norm of gradients and state.
func TestGroupsAgainstPyTorch(t *testing.T) {
	scale, half, decay := 3.0, 0.5, 0.2
	goldens(t, func(t *testing.T, d tensor.DType, g golden) {
		for _, r := range g.Grouped {
			cfg := configOf(r.Config)
			cfg.Groups = []Group{{Match: []string{"head"}, LRScale: &scale}, {Match: []string{"*.b*", "body"}, LRScale: &half, WeightDecay: &decay}, {Match: []string{"head.weight"}, WeightDecay: &scale}}
			var params []Param
			for _, name := range []string{"head.weight", "body.0.bias", "tail.weight"} {
				p := Param{Name: name, Value: tensor.New(d, 2, 4), Grad: tensor.New(d, 2, 4)}
				set(p.Value, g.Start)
				params = append(params, p)
			}
			o, err := New(cfg, params)
			check(t, err)
			for step, want := range r.Params {
				for i, p := range params {
					for j, v := range g.Grads[step] {
						p.Grad.Set(j, float64(v)*float64(i+1))
					}
				}
				near(t, fmt.Sprint(r.Config, ": norm"), []float64{o.ClipNorm(5)}, r.Norms[step:][:1], tolerance[d])
				o.Step(cfg.LR)
				for i, p := range params {
					near(t, fmt.Sprint(r.Config, ": ", p.Name), values(p.Value), want[i], tolerance[d])
				}
				near(t, "the frozen one", values(tensor.Of(d, tensor.Shape{2, 4}, startOf(d, g))), want[3], 0)
			}
		}
	})
}

func startOf(d tensor.DType, g golden) []byte {
	v := tensor.New(d, 2, 4)
	set(v, g.Start)
	return v.Data
}

// Averages are those of AveragedModel with get_ema_multi_avg_fn, also resumed; exchanging them
// and back changes nothing.
func TestAveragesAgainstPyTorch(t *testing.T) {
	goldens(t, func(t *testing.T, d tensor.DType, g golden) {
		for _, r := range g.Averaged {
			cfg := DefaultFor("sgd")
			cfg.Momentum, cfg.EMADecay = 0.9, r.Decay
			make := func() (*Optimizer, Param) {
				p := Param{Name: "w", Value: tensor.New(d, 2, 4), Grad: tensor.New(d, 2, 4)}
				o, err := New(cfg, []Param{p})
				check(t, err)
				return o, p
			}
			o, p := make()
			set(p.Value, g.Start)
			for step, want := range r.Averages {
				next, q := make()
				check(t, next.Load(o.State()))
				copy(q.Value.Data, p.Value.Data)
				o, p = next, q
				set(p.Grad, g.Grads[step])
				o.Step(0.1)
				weights := values(p.Value)
				o.UseAverage()
				near(t, fmt.Sprint("decay ", r.Decay, ", step ", step+1), values(p.Value), want, tolerance[d])
				if o.UseAverage(); !slices.Equal(weights, values(p.Value)) {
					t.Fatal("weights differ after the exchange")
				}
			}
		}
	})
}

// Under a onecycle schedule, weights are those of PyTorch's optimizers whose momentum OneCycleLR changes.
func TestMomentumCyclesAsPyTorchs(t *testing.T) {
	goldens(t, func(t *testing.T, d tensor.DType, g golden) {
		for _, r := range g.Cycled {
			sched := DefaultSchedule()
			sched.Name, sched.Unit = "onecycle", "step"
			cfg := configOf(r.Config)
			if r.Config["betas"] == nil {
				cfg.Betas = DefaultFor(cfg.Name).Betas
			}
			if r.Config["alpha"] == nil {
				cfg.Alpha = DefaultFor(cfg.Name).Alpha
			}
			s, err := NewSchedule(sched, cfg.LR, 3, len(r.Params))
			check(t, err)
			p := Param{Name: "w", Value: tensor.New(d, 2, 4), Grad: tensor.New(d, 2, 4)}
			set(p.Value, g.Start)
			o, err := New(cfg.Under(sched), []Param{p})
			check(t, err)
			for i, want := range r.Params {
				m, cycles := s.Momentum(i)
				if !cycles {
					t.Fatal("the schedule has no momentum")
				}
				o.SetMomentum(m)
				set(p.Grad, g.Grads[i])
				o.Step(s.LR(i))
				near(t, fmt.Sprint(r.Config, ", step ", i+1), values(p.Value), want, tolerance[d])
			}
		}
	})
}

// Half weights are averaged from their master copies, or from themselves, in float32.
func TestAveragesOfHalves(t *testing.T) {
	for _, master := range []bool{true, false} {
		cfg := DefaultFor("sgd")
		cfg.EMADecay = 0.75
		p := Param{Name: "w", Value: tensor.New(tensor.BF16, 1), Grad: tensor.New(tensor.BF16, 1)}
		if master {
			p.Master = tensor.New(tensor.F32, 1)
		}
		o, err := New(cfg, []Param{p})
		check(t, err)
		p.Grad.Set(0, -1)
		for range 3 { // 1, 2, 3
			o.Step(1)
		}
		o.UseAverage()
		if got := p.Value.At(0); got != 1.6875 { // 1, 1.25, 1.6875
			t.Errorf("master %v: %v", master, got)
		}
		o.UseAverage()
		if p.Value.At(0) != 3 {
			t.Errorf("master %v: the weight is %v", master, p.Value.At(0))
		}
	}
}

// A pattern is a name, that of a layer around it, or either with stars.
func TestMatch(t *testing.T) {
	for pattern, want := range map[string]bool{
		"layer1.0.conv1.weight": true, "layer1": true, "layer1.0": true, "*.weight": true, "layer*.conv1": true, "*": true, "l*r1.*.w*t": true, "tied": true,
		"layer": false, "conv1": false, "*.bias": false, "layer1.": false, "": false, "layer1.0.conv1.weight.x": false,
	} {
		if got := MatchAny(pattern, []string{"layer1.0.conv1.weight", "tied.weight"}); got != want {
			t.Errorf("%q matches is %v", pattern, got)
		}
	}
}

func TestClipAgainstPyTorch(t *testing.T) {
	goldens(t, func(t *testing.T, d tensor.DType, g golden) {
		for _, c := range g.Clip {
			a := Param{Name: "a", Value: tensor.New(d, 2, 4), Grad: tensor.New(d, 2, 4)}
			b := Param{Name: "b", Value: tensor.New(d, 4), Grad: tensor.New(d, 4)}
			set(a.Grad, g.Grads[0])
			set(b.Grad, g.Grads[1][:4])
			o, err := New(DefaultFor("sgd"), []Param{a, b})
			if err != nil {
				t.Fatal(err)
			}
			total := o.ClipNorm(c.MaxNorm)
			near(t, "norm", []float64{total}, []exact{c.Total}, tolerance[d])
			near(t, "a", values(a.Grad), c.Grads[0], tolerance[d])
			near(t, "b", values(b.Grad), c.Grads[1], tolerance[d])
		}
	})
}

func TestSchedulesAgainstPyTorch(t *testing.T) {
	type schedules struct {
		Base exact
		Runs []struct {
			Config       map[string]any
			LR, Momentum []exact
		}
	}
	g := testjson.Read[schedules](t, "testdata/schedules.json")
	for _, r := range g.Runs {
		t.Run(fmt.Sprint(r.Config), func(t *testing.T) {
			c := scheduleOf(r.Config)
			c.Unit = "step"
			perStep, err := NewSchedule(c, float64(g.Base), 3, 16)
			if err != nil {
				t.Fatal(err)
			}
			c.Unit, c.WarmupSteps = "epoch", 0
			perEpoch, err := NewSchedule(c, float64(g.Base), 3, 48)
			if err != nil {
				t.Fatal(err)
			}
			for i, want := range r.Momentum {
				m, cycles := perStep.Momentum(i)
				if near(t, fmt.Sprintf("momentum %d", i), []float64{m}, []exact{want}, 1e-14); !cycles {
					t.Error("the momentum does not change")
				}
			}
			for i, want := range r.LR {
				near(t, fmt.Sprintf("step %d", i), []float64{perStep.LR(i)}, []exact{want}, 1e-14)
				if r.Config["warmup_steps"] == nil {
					near(t, fmt.Sprintf("epoch %d", i), []float64{perEpoch.LR(3 * i), perEpoch.LR(3*i + 2)}, []exact{want, want}, 1e-14)
				}
			}
		})
	}
}

// A plateau has PyTorch's rates after each evaluation, also where it is resumed after any of them.
func TestPlateauAgainstPyTorch(t *testing.T) {
	g := testjson.Read[struct {
		Base     exact
		Plateaus []struct {
			Config  map[string]any
			Metrics []string
			LR      []exact
		}
	}](t, "testdata/schedules.json")
	for _, r := range g.Plateaus {
		t.Run(fmt.Sprint(r.Config), func(t *testing.T) {
			make := func() *Plateau {
				s, err := NewSchedule(scheduleOf(r.Config), float64(g.Base), 3, 48)
				check(t, err)
				return s.(*Plateau)
			}
			whole, resumed := make(), make()
			for i, m := range r.Metrics {
				v, err := strconv.ParseFloat(m, 64)
				check(t, err)
				whole.Observe(v)
				state := resumed.State()
				resumed = make()
				resumed.Load(state)
				resumed.Observe(v)
				near(t, fmt.Sprint("evaluation ", i), []float64{whole.LR(i), resumed.LR(i)}, []exact{r.LR[i], r.LR[i]}, 1e-14)
			}
		})
	}
}

// scheduleOf is a table of the golden file: keys and values as in TOML.
func scheduleOf(m map[string]any) ScheduleConfig {
	c := DefaultSchedule()
	v := reflect.ValueOf(&c).Elem()
	for i := range v.NumField() {
		if given, ok := m[v.Type().Field(i).Tag.Get("toml")]; ok {
			b, err := json.Marshal(given)
			if err == nil {
				err = json.Unmarshal(b, v.Field(i).Addr().Interface())
			}
			if err != nil {
				panic(err)
			}
		}
	}
	return c
}
