package nn_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/trainctl/trainctl/core/base/testjson"
	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/engine/nn"
	"github.com/trainctl/trainctl/core/engine/nn/nntest"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/plan"
	"github.com/trainctl/trainctl/core/tensor"
)

// namedGolden is what transformers or torchvision computes: testdata/named.py.
type namedGolden struct {
	Model  string
	Config map[string]any
	Input  []float64
	Target []int32
	Logits []float64
	Loss   float64
	Names  []string
	Grads  map[string]tensorSummary
	Init   map[string]tensorSummary
}

func namedGoldens(t *testing.T, f func(t *testing.T, want namedGolden)) {
	for i, want := range testjson.Read[[]namedGolden](t, "testdata/named.json") {
		t.Run(fmt.Sprint(want.Model, i), func(t *testing.T) { f(t, want) })
	}
}

func (w *namedGolden) config() nn.Config {
	c := nn.Config{Name: w.Model, Args: op.Args{}}
	for name, v := range w.Config {
		k, _ := c.ArgKey(name)
		if f, ok := v.(float64); ok && k.Kind == op.Int {
			v = int(f)
		}
		if list, ok := v.([]any); ok && k.Kind == op.Floats {
			v = floats(list)
		}
		c.Args[name] = v
	}
	return c
}

func floats(list []any) (out []float64) {
	for _, x := range list {
		out = append(out, x.(float64))
	}
	return out
}

// specs are those of samples and targets, 3 of each.
func (w *namedGolden) specs() (in, target tensor.Spec) {
	if w.Model == "vit" {
		return image(12), class
	}
	row := tensor.Spec{DType: tensor.I32, Shape: tensor.Shape{len(w.Input) / 3}}
	return row, row
}

func (w *namedGolden) input() []byte {
	if w.Model == "vit" {
		x := make([]float32, len(w.Input))
		for i, v := range w.Input {
			x[i] = float32(v)
		}
		return tensor.Bytes(x)
	}
	x := make([]int32, len(w.Input))
	for i, v := range w.Input {
		x[i] = int32(v)
	}
	return tensor.Bytes(x)
}

func (w *namedGolden) build(t *testing.T, target tensor.Spec, classes int) *graph.Graph {
	t.Helper()
	in, _ := w.specs()
	cfg := w.config()
	if target.DType.Float() {
		cfg.Loss = "mse"
	}
	g, err := nn.Build(cfg, in, target, classes)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// fillNamed draws what fill of testdata/named.py draws.
func fillNamed(g *graph.Graph, d tensor.DType) (st plan.State) {
	for _, e := range g.StateDict() {
		x := tensor.New(d, e.Spec.Shape...)
		for j, v := range nntest.Values(e.Name, e.Spec.Shape) {
			put(x, j, float64(v))
		}
		st.Tensors = append(st.Tensors, x)
		st.Grads = append(st.Grads, tensor.New(d, e.Spec.Shape...))
	}
	return st
}

// near is a tolerance: transformers rounds the angles of rotary positions to float32.
func (w *namedGolden) near(d tensor.DType) float64 {
	switch {
	case d == tensor.F32:
		return 1e-5
	case w.Model == "llama":
		return 3e-7
	}
	return 1e-12
}

// The same weights in tensors of the same names give the same logits. The squared
// error against them, as a loss, says how far off they are.
func TestNamedModelsLogits(t *testing.T) {
	namedGoldens(t, func(t *testing.T, want namedGolden) {
		for _, d := range []tensor.DType{tensor.F64, tensor.F32} {
			rows := tensor.Shape{len(want.Logits) / 3}
			classes := 10
			if want.Model != "vit" {
				classes = want.config().Args["vocab_size"].(int)
				rows = tensor.Shape{rows[0] / classes, classes}
			}
			g := want.build(t, tensor.Spec{DType: tensor.F32, Shape: rows}, classes)
			var names []string
			for _, e := range g.StateDict() {
				names = append(names, e.Name)
			}
			slices.Sort(names)
			if slices.Sort(want.Names); !slices.Equal(names, want.Names) {
				t.Fatalf("state dict %v, want %v", names, want.Names)
			}
			target, square := make([]float32, len(want.Logits)), 0.0
			for i, v := range want.Logits {
				target[i] = float32(v)
				square += v * v / float64(len(want.Logits))
			}
			res := bindPlan(t, g, fillNamed(g, d), plan.Options{Batch: 3, DType: d}).Run(plan.Args{Input: want.input(), Target: tensor.Bytes(target)})
			tol := max(want.near(d), 1e-7) // the targets are rounded to float32
			if off := math.Sqrt(res.Loss / square); !(off <= tol) || res.Err != nil {
				t.Errorf("%v: logits are off by %g of their root mean square, %v", d, off, res.Err)
			}
		}
	})
}

// Loss and gradients of a step are those of autograd; a tied weight has one gradient, of both its uses.
func TestNamedModelsGradients(t *testing.T) {
	namedGoldens(t, func(t *testing.T, want namedGolden) {
		for _, d := range []tensor.DType{tensor.F64, tensor.F32} {
			_, target := want.specs()
			g := want.build(t, target, 10)
			st := fillNamed(g, d)
			arrived := map[int]int{}
			res := bindPlan(t, g, st, plan.Options{Batch: 3, Train: true, DType: d}).Run(plan.Args{
				Input: want.input(), Target: tensor.Bytes(want.Target), OnGrad: func(i int) { arrived[i]++ },
			})
			if math.Abs(res.Loss-want.Loss) > want.near(d)*want.Loss || res.Err != nil {
				t.Errorf("%v: loss %.12g, want %.12g, %v", d, res.Loss, want.Loss, res.Err)
			}
			for i, p := range g.Params() {
				s := want.Grads[p.Name]
				s.compare(t, p.Name+".grad", st.Grads[i], 30*want.near(d))
				if arrived[i] != 1 {
					t.Errorf("the gradient of %s arrived %d times", p.Name, arrived[i])
				}
			}
		}
	})
}

// The same seed draws the same numbers as the constructors of transformers and
// torchvision, and for GPT-2 as the usual ones with linear layers, within rounding.
func TestNamedModelsInitialisation(t *testing.T) {
	namedGoldens(t, func(t *testing.T, want namedGolden) {
		_, target := want.specs()
		g := want.build(t, target, 10)
		state := newState(g)
		if err := nn.Initialize(want.config(), g, 42, state); err != nil {
			t.Fatal(err)
		}
		for i, e := range g.StateDict() {
			s, ok := want.Init[e.Name]
			if !ok {
				t.Fatalf("no golden for %s", e.Name)
			}
			s.compare(t, e.Name, state[i], 1e-6)
		}
	})
}

// Sizes that do not fit are reported at their key, with what to do.
func TestNamedModelProblems(t *testing.T) {
	text := tensor.Spec{DType: tensor.I32, Shape: tensor.Shape{64}}
	for _, c := range []struct {
		cfg  nn.Config
		in   tensor.Spec
		want string
	}{
		{nn.Config{Name: "gpt2", Args: op.Args{"n_head": 5}}, text, "n_head: n_embd 768 is not divisible into 5 heads"},
		{nn.Config{Name: "gpt2", Args: op.Args{"n_positions": 32}}, text, "n_positions: the data set's context is 64 tokens, but n_positions is 32 (raise it, or shorten the context)"},
		{nn.Config{Name: "gpt2", Args: op.Args{"patch_size": 4}}, text, "patch_size: gpt2 takes no patch_size (it takes n_layer, n_head, n_embd, n_positions, vocab_size, n_inner, layer_norm_epsilon, initializer_range, embd_pdrop, attn_pdrop, resid_pdrop)"},
		{nn.Config{Name: "llama", Args: op.Args{"num_key_value_heads": 3}}, text, "num_key_value_heads: 32 heads are not divisible by 3 key and value heads"},
		{nn.Config{Name: "llama"}, image(8), "name: llama: it needs sequences of tokens, but the samples are [3, 8, 8]"},
		{nn.Config{Name: "vit", Args: op.Args{"patch_size": 5}}, image(32), "patch_size: images of 32×32 do not divide into patches of 5×5 (choose a divisor of both sides)"},
		{nn.Config{Name: "vit", Args: op.Args{"n_layer": 2}}, image(32), "n_layer: vit takes no n_layer (it takes patch_size, num_layers, num_heads, dropout, attention_dropout, hidden_dim, mlp_dim)"},
		{nn.Config{Args: op.Args{"n_layer": 2}, Layers: layers{{Type: "flatten"}}}, image(32), "n_layer: applies only to named models (remove it, or give a name)"},
	} {
		_, err := nn.Build(c.cfg, c.in, class, 10)
		if err == nil || err.Error() != c.want {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
}

// A tied layer has another layer's weight, and a name for it.
func TestTie(t *testing.T) {
	text := tensor.Spec{DType: tensor.I32, Shape: tensor.Shape{5}}
	tied := func(tie string, width int) nn.Config {
		return nn.Config{Layers: layers{
			{Type: "embedding", Name: "table", Args: op.Args{"num_embeddings": 10, "embedding_dim": 4}},
			{Type: "relu", Name: "act"},
			{Type: "linear", Name: "head", Args: op.Args{"out_features": width, "bias": false, "tie": tie}},
		}}
	}
	g, err := nn.Build(tied("table.weight", 10), text, text, 10)
	if err != nil {
		t.Fatal(err)
	}
	if len(g.Params()) != 1 || !slices.Equal(g.Aliases(), []graph.Alias{{Name: "head.weight", Param: 0}}) {
		t.Errorf("parameters %v, aliases %v", g.Params(), g.Aliases())
	}
	relu := tied("", 10)
	relu.Layers[1].Args = op.Args{"tie": "table.weight"}
	for _, c := range []struct {
		cfg  nn.Config
		want string
	}{
		{tied("head.weight", 10), "layers[2].tie: no earlier layer has a parameter \"head.weight\" (name it as `trainctl plan` lists it, such as \"wte.weight\")"},
		{tied("table.weight", 11), `layers[2].tie: "table.weight" is [10, 4], but the weight of this layer is [11, 4] (remove tie, or choose another parameter)`},
		{relu, "layers[1].tie: relu takes no tie (it has no arguments)"},
	} {
		if _, err := nn.Build(c.cfg, text, text, 10); err == nil || err.Error() != c.want {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
	frozen := tied("table.weight", 10)
	frozen.Freeze = []string{"head"}
	if _, err := nn.Build(frozen, text, text, 10); err == nil || !strings.Contains(err.Error(), "every parameter is frozen") {
		t.Errorf("a frozen tied weight: %v", err)
	}
}
