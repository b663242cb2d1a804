package custom_test

import (
	"bytes"
	"errors"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/trainctl/trainctl"
	"github.com/trainctl/trainctl/custom"
	"github.com/trainctl/trainctl/trainctltest"
)

// halve is w·(a+b) for neighbours a and b of the last dimension, with a w for each of them: its output has another shape than its input.
var halve = custom.Layer{
	Name: "halve", Doc: "weighted sums of neighbours",
	Keys: []custom.Key{{Name: "scale", Default: 1.0, Positive: true, Doc: "of the sums"}},
	Params: func(a custom.Args, in []int) ([]custom.Param, error) {
		return []custom.Param{{Name: "weight", Shape: []int{in[len(in)-1] / 2}, Init: custom.Uniform(0.5, 1.5)}}, nil
	},
	Shape: func(a custom.Args, in []int) ([]int, error) {
		last := len(in) - 1
		if in[last]%2 != 0 {
			return nil, errors.New("the last dimension has to be even")
		}
		return append(in[:last:last], in[last]/2), nil
	},
	Float32: custom.Kernels[float32]{Forward: halves[float32], Backward: halvesBack[float32]},
	Float64: custom.Kernels[float64]{Forward: halves[float64], Backward: halvesBack[float64]},
}

func halves[T custom.Number](c *custom.Call[T]) {
	halveAll(c.Args.Float("scale"), c.Params[0], c.X, c.Y)
}

func halveAll[T custom.Number](scale float64, w, x, y []T) {
	for i := range y {
		y[i] = T(scale) * w[i%len(w)] * (x[2*i] + x[2*i+1])
	}
}

func halvesBack[T custom.Number](c *custom.Call[T]) {
	halveAllBack(c.Args.Float("scale"), c.Params[0], c.X, c.DY, c.DX, c.DParams[0])
}

func halveAllBack[T custom.Number](factor float64, w, x, grad, dx, dw []T) {
	scale := T(factor)
	for i, dy := range grad {
		dw[i%len(w)] += scale * dy * (x[2*i] + x[2*i+1])
		dx[2*i] = scale * dy * w[i%len(w)]
		dx[2*i+1] = dx[2*i]
	}
}

// hinge is the multi-class hinge loss with a margin.
var hinge = custom.Loss{
	Name: "hinge", Doc: "multi-class hinge loss",
	Keys:    []custom.Key{{Name: "margin", Default: 1.0, Positive: true, Doc: "between the class and others"}},
	Float32: hingeRow[float32], Float64: hingeRow[float64],
}

func hingeRow[T custom.Number](r custom.Row[T]) (sum float64) {
	clear(r.Grad)
	for i, x := range r.Output {
		if v := float64(x-r.Output[r.Class]) + r.Args.Float("margin"); i != r.Class && v > 0 {
			sum += v
			if r.Grad != nil {
				r.Grad[i]++
				r.Grad[r.Class]--
			}
		}
	}
	return sum
}

// heavy is SGD with heavy-ball momentum, scaled by how large the gradient is beside the weights.
var heavy = custom.Optimizer{
	Name: "heavy", Uses: []string{"momentum"}, State: []string{"velocity"}, Defaults: custom.Settings{LR: 0.05, Momentum: 0.8},
	Keys:    []custom.Key{{Name: "clip", Default: 10, Min: 1, Doc: "largest step"}},
	Float32: heavyUpdate[float32], Float64: heavyUpdate[float64],
}

func heavyUpdate[T custom.Number](u custom.Update[T]) {
	most := T(u.Args.Int("clip"))
	for i, g := range u.Grad {
		v := T(u.Momentum)*u.State[0][i] + g + T(u.WeightDecay)*u.Weight[i]
		u.State[0][i] = max(-most, min(most, v))
		u.Weight[i] -= T(u.LR) * u.State[0][i]
	}
}

func TestMain(m *testing.M) {
	servePlugin()
	if err := custom.Register(halve, hinge, heavy); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

const network = `
run.name = "custom"
dataset.plugin = "synthetic"
dataset.options = { shape = [6], classes = 3, train_samples = 96, test_samples = 30 }
train = { per_rank_batch = 8, max_steps = 4 }
[model]
loss = "hinge"
margin = 0.7
[[model.layers]]
type = "linear"
out_features = 8
[[model.layers]]
type = "halve"
name = "pairs"
scale = 0.5
[[model.layers]]
type = "linear"
out_features = 3
[optimizer]
name = "heavy"
clip = 3
`

// Threads and processes, and ranks with parts of the optimizer's state, give the same bits.
func TestRanksAgree(t *testing.T) {
	cfg := trainctl.TOML(network)
	threads := trainctltest.Run(t, cfg, 2, trainctl.TCP)
	processes := trainctltest.Run(t, cfg, 2, trainctl.TCP, trainctl.Set("launch.ranks=processes"), trainctl.RankArgs("-test.run=^TestRanksAgree$"))
	sharded := trainctltest.Run(t, cfg.With("ddp.shard=optimizer"), 2, trainctltest.Memory())
	want := threads.Summary.ParamsSHA256[0]
	if got := processes.Summary.ParamsSHA256[0]; got != want {
		t.Errorf("weights %.12s of processes, %.12s of threads", got, want)
	}
	if got := sharded.Summary.ParamsSHA256[0]; got != want {
		t.Errorf("weights %.12s of ranks with parts of the state, %.12s of others", got, want)
	}
	if len(threads.Losses) != 4 || threads.Losses[3] >= threads.Losses[0] || threads.Weights["pairs.weight"].Shape.Elems() != 4 {
		t.Errorf("losses %v, weights %v", threads.Losses, threads.Weights["pairs.weight"])
	}
}

// The types of a run reach the functions, and half types go through float32.
func TestTypes(t *testing.T) {
	cfg := trainctl.TOML(network)
	want := trainctltest.Run(t, cfg, 1, trainctltest.Memory()).Losses
	for name, set := range map[string][]string{
		"float64": {"run.dtype=f64"}, "autocast": {"precision.plugin=amp", `precision.options={dtype="bf16"}`},
		"pure bfloat16": {"precision.plugin=amp", `precision.options={level="O3", dtype="bf16"}`},
		"recomputed":    {"train.recompute=blocks"},
	} {
		t.Run(name, func(t *testing.T) {
			got := trainctltest.Run(t, cfg.With(set...), 1, trainctltest.Memory()).Losses
			if d := got[3] - want[3]; len(got) != 4 || !(d < 0.05 && d > -0.05) {
				t.Errorf("losses %v, in float32 %v", got, want)
			}
		})
	}
}

// A run that continues from a checkpoint ends with the weights of one that was not stopped.
func TestResume(t *testing.T) { resumes(t, trainctl.TOML(network)) }

func resumes(t *testing.T, cfg trainctl.Config) {
	t.Helper()
	dir := t.TempDir()
	cfg = cfg.With(`checkpoint.every="2 steps"`)
	want := trainctltest.Run(t, cfg, 1, trainctltest.Memory())
	at := trainctl.Set("run.dir=\"" + dir + "\"")
	trainctltest.Run(t, cfg.With("train.max_steps=2"), 1, trainctltest.Memory(), at)
	got := trainctltest.Run(t, cfg, 1, trainctltest.Memory(), at, trainctl.Resume("auto"))
	if len(got.Losses) != 2 || got.Summary.ParamsSHA256[0] != want.Summary.ParamsSHA256[0] {
		t.Errorf("%d steps after the checkpoint; weights %.12s, want %.12s", len(got.Losses), got.Summary.ParamsSHA256[0], want.Summary.ParamsSHA256[0])
	}
}

// Mistakes in the configuration are named as those of built-in operations.
func TestMistakesAreNamed(t *testing.T) {
	layers := func(second string) string {
		return `model.layers=[{ type = "linear", out_features = 7 }, { ` + second + ` }, { type = "linear", out_features = 3 }]`
	}
	for name, c := range map[string]struct{ set, want string }{
		"layer":           {layers(`type = "halves"`), `unknown layer type "halves"`},
		"key of a layer":  {layers(`type = "halve", scal = 1.0`), "did you mean scale?"},
		"value":           {layers(`type = "halve", scale = -1.0`), "-1 is not positive"},
		"shape":           {layers(`type = "halve"`), "1 (halve): input [7]: the last dimension has to be even"},
		"loss":            {`model.loss="hing"`, `unknown loss "hing"`},
		"other loss":      {`model.loss="cross_entropy"`, "applies only to the loss hinge"},
		"device":          {"run.device=cuda", "pairs (halve) is an operation of this program, which only CPUs compute"},
		"optimizer":       {"optimizer.name=heavi", `unknown optimizer "heavi"`},
		"other optimizer": {"optimizer.name=sgd", "sgd takes no clip"},
		"optimizer's key": {"optimizer.clip=0", "0 is less than 1"},
		"setting":         {"optimizer.eps=0.1", "heavy does not use it"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := trainctl.Plan(t.Context(), trainctl.TOML(network).With(c.set))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q in it", err, c.want)
			}
		})
	}
}

func TestPlan(t *testing.T) {
	f, err := trainctl.Plan(t.Context(), trainctl.TOML(network), trainctl.Ranks(2))
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	f.Text(&text)
	for _, want := range []string{"pairs", "halve", "heavy", "clip=3"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the plan does not name %q:\n%s", want, &text)
		}
	}
}

// What cannot be registered is refused, with what to do.
func TestRegister(t *testing.T) {
	layer, loss, optimizer := halve, hinge, heavy
	layer.Name, loss.Name, optimizer.Name = "fresh_layer", "fresh_loss", "fresh_optimizer"
	layerKey := func(name string, v any) custom.Layer {
		return edited(layer, func(l *custom.Layer) { l.Keys = []custom.Key{{Name: name, Default: v}} })
	}
	lossKey := func(name string, v any) custom.Loss {
		return edited(loss, func(l *custom.Loss) { l.Keys = []custom.Key{{Name: name, Default: v}} })
	}
	for want, d := range map[string]custom.Definition{
		"layer type halve already":          halve,
		"operation hinge already":           hinge,
		"optimizer heavy already":           heavy,
		`is named "No"`:                     edited(layer, func(l *custom.Layer) { l.Name = "No" }),
		"layer type sequential already":     edited(layer, func(l *custom.Layer) { l.Name = "sequential" }),
		"has no Float64.Backward":           edited(layer, func(l *custom.Layer) { l.Float64.Backward = nil }),
		"key name has a meaning":            layerKey("name", ""),
		"key groups of fresh_layer":         layerKey("groups", 0.5),
		"n_embd is a key of the model gpt2": lossKey("n_embd", 1),
		"but that of the loss hinge is":     lossKey("margin", 1),
		"the key x is listed twice":         edited(layer, func(l *custom.Layer) { l.Keys = []custom.Key{{Name: "x", Default: 1}, {Name: "x", Default: 1}} }),
		"a Default of type float32":         lossKey("x", float32(1)),
		"its own Default: x: 0 is not pos":  edited(layer, func(l *custom.Layer) { l.Keys = []custom.Key{{Name: "x", Default: 0.0, Positive: true}} }),
		"its own Default: x: 3 is outside":  edited(loss, func(l *custom.Loss) { l.Keys = []custom.Key{{Name: "x", Default: 3.0, Range: [2]float64{0, 2}}} }),
		"x: 0 is less than 1":               edited(optimizer, func(o *custom.Optimizer) { o.Keys = []custom.Key{{Name: "x", Default: 0, Min: 1}} }),
		"x[1]: -1 is less than 0":           layerKey("x", []int{0, -1}),
		`unknown x "c" (a or b)`:            edited(layer, func(l *custom.Layer) { l.Keys = []custom.Key{{Name: "x", Default: "c", Enum: []string{"a", "b"}}} }),
		`Uses[0] is "lr"`:                   edited(optimizer, func(o *custom.Optimizer) { o.Uses = []string{"lr"} }),
		`State[1] is "a"`:                   edited(optimizer, func(o *custom.Optimizer) { o.State = []string{"a", "a"} }),
		"alpha is a key of every":           edited(optimizer, func(o *custom.Optimizer) { o.Keys = []custom.Key{{Name: "alpha", Default: 1.0}} }),
	} {
		if err := custom.Register(d); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q in it", err, want)
		}
	}
}

// Parameters that a state dict cannot hold are refused.
func TestParametersAreChecked(t *testing.T) {
	for want, params := range map[string][]custom.Param{
		`parameter 1 is named "w"`:         {{Name: "w", Shape: []int{1}}, {Name: "w", Shape: []int{1}}},
		`parameter 0 is named ""`:          {{Shape: []int{1}}},
		"[-2 -3] has a size below 1":       {{Name: "w", Shape: []int{-2, -3}}},
		`parameter 0 is named "a.running"`: {{Name: "a.running", Shape: []int{2}}},
	} {
		l := edited(halve, func(l *custom.Layer) {
			l.Params = func(custom.Args, []int) ([]custom.Param, error) { return params, nil }
		})
		if _, err := l.Parameters([]int{2}, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q in it", err, want)
		}
	}
}

// edited is a definition with a change.
func edited[T any](d T, change func(*T)) T {
	change(&d)
	return d
}

// logistic reads its output in the gradient.
var logistic = custom.Layer{
	Name: "logistic", SaveOutput: true, InPlace: true, PerSample: true,
	Float32: custom.Kernels[float32]{Forward: logisticForward[float32], Backward: logisticBackward[float32]},
	Float64: custom.Kernels[float64]{Forward: logisticForward[float64], Backward: logisticBackward[float64]},
}

func logisticForward[T custom.Number](c *custom.Call[T]) {
	for i, x := range c.X {
		c.Y[i] = T(1 / (1 + math.Exp(-float64(x))))
	}
}

func logisticBackward[T custom.Number](c *custom.Call[T]) {
	for i, y := range c.Y {
		c.DX[i] = c.DY[i] * y * (1 - y)
	}
}

// dense is a linear layer without bias, to four features.
var dense = custom.Layer{
	Name: "dense",
	Params: func(_ custom.Args, in []int) ([]custom.Param, error) {
		return []custom.Param{{Name: "weight", Shape: []int{4, in[len(in)-1]}, Init: custom.Normal(0.5)}}, nil
	},
	Shape: func(_ custom.Args, in []int) ([]int, error) {
		last := len(in) - 1
		return append(in[:last:last], 4), nil
	},
	Float32: custom.Kernels[float32]{Forward: denseForward[float32], Backward: denseBackward[float32]},
	Float64: custom.Kernels[float64]{Forward: denseForward[float64], Backward: denseBackward[float64]},
}

func denseForward[T custom.Number](c *custom.Call[T]) {
	custom.MatMul(false, true, len(c.Y)/4, 4, len(c.Params[0])/4, c.X, c.Params[0], false, c.Y)
}

func denseBackward[T custom.Number](c *custom.Call[T]) {
	rows, k := len(c.DY)/4, len(c.Params[0])/4
	custom.MatMul(false, false, rows, k, 4, c.DY, c.Params[0], false, c.DX)
	custom.MatMul(true, false, 4, k, rows, c.DY, c.X, true, c.DParams[0])
}

func TestChecks(t *testing.T) {
	trainctltest.CheckLayer(t, logistic, []int{5}, nil)
	trainctltest.CheckLayer(t, silu, []int{4}, nil)
	trainctltest.CheckLayer(t, vectorSilu, []int{4}, nil)
	trainctltest.CheckLayer(t, dense, []int{2, 3}, nil)
	trainctltest.CheckLayer(t, halve, []int{3, 4}, map[string]any{"scale": 0.5})
	trainctltest.CheckLoss(t, hinge, 5, map[string]any{"margin": 0.3})
	trainctltest.CheckOptimizer(t, heavy, map[string]any{"clip": 3})
	trainctltest.CheckOptimizer(t, root, nil)
}
