package infer

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trainctl/trainctl/core/base/testjson"
	"github.com/trainctl/trainctl/core/engine/cpu"
	"github.com/trainctl/trainctl/core/engine/cpu/ops"
	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/engine/kernel/kerneltest"
	"github.com/trainctl/trainctl/core/engine/nn"
	"github.com/trainctl/trainctl/core/engine/nn/nntest"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/plan"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/tensor"
	"github.com/trainctl/trainctl/core/train/checkpoint"
	"github.com/trainctl/trainctl/core/train/checkpoint/safetensors"
)

// continued is what transformers' generate makes of a prompt: testdata/generate.py.
type continued struct {
	Model        string
	Config       map[string]any
	Prompt, Text []int32
	Logits       []float64 // behind Text
}

// network is a configuration from JSON, where integers are floats.
func network(name string, config map[string]any) nn.Config {
	c := nn.Config{Name: name, Args: op.Args{}}
	for key, v := range config {
		k, _ := c.ArgKey(key)
		if f, ok := v.(float64); ok && k.Kind == op.Int {
			v = int(f)
		}
		c.Args[key] = v
	}
	return c
}

// texts are samples of so many of 19 tokens.
func texts(context int) *sdk.DatasetSpec {
	row := tensor.Spec{DType: tensor.I32, Shape: tensor.Shape{context}}
	return &sdk.DatasetSpec{Input: row, Target: row, Vocabulary: 19, Classes: 19}
}

// written is a safetensors file with weights that follow from their names, as those of
// core/engine/nn/testdata/named.py.
func written(t testing.TB, g *graph.Graph) string {
	t.Helper()
	var all []tensor.Named
	for i, x := range nntest.Weights(g) {
		all = append(all, tensor.Named{Name: g.StateDict()[i].Name, Tensor: x})
	}
	path := filepath.Join(t.TempDir(), "model.safetensors")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := safetensors.Write(f, all, nil); err != nil {
		t.Fatal(err)
	}
	return path
}

// loaded is a model for a context with those weights.
func loaded(t testing.TB, cfg nn.Config, spec *sdk.DatasetSpec) *Model {
	t.Helper()
	g, err := nn.Build(cfg, spec.Input, spec.Target, spec.Classes)
	if err != nil {
		t.Fatal(err)
	}
	m, err := Load(context.Background(), checkpoint.OsFS(), cfg, spec, written(t, g))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// whole are the logits of all positions of a sample, computed at once.
func whole(t testing.TB, m *Model, tokens []int32) []float32 {
	t.Helper()
	p, out, _, err := m.program(cpu.New(), plan.Options{Batch: 1}, nil)
	if err != nil {
		t.Fatal(err)
	}
	full := append(slices.Clone(tokens), make([]int32, m.Graph.Shape(m.Graph.Input())[0]-len(tokens))...)
	if res := p.Run(plan.Args{Input: tensor.Bytes(full)}); res.Err != nil {
		t.Fatal(res.Err)
	}
	return tensor.View[float32](out.Data)
}

// Greedy tokens are those of transformers, whatever the length of the prompt, and so are the last logits.
func TestGreedyAsTransformers(t *testing.T) {
	for i, want := range testjson.Read[[]continued](t, "testdata/generate.json") {
		t.Run(fmt.Sprint(want.Model, i), func(t *testing.T) {
			d, err := NewDecoder(loaded(t, network(want.Model, want.Config), texts(80)), 2)
			if err != nil {
				t.Fatal(err)
			}
			s := newSampler(Sampling{})
			logits := feed(t, d, want.Prompt)
			var got []int32
			for range want.Text {
				got = append(got, s.Next(logits))
				logits = feed(t, d, got[len(got)-1:])
			}
			if !slices.Equal(got, want.Text) {
				t.Errorf("%v\nwant %v", got, want.Text)
			}
			for j, v := range logits {
				if math.Abs(float64(v)-want.Logits[j]) > 1e-5*(1+math.Abs(want.Logits[j])) {
					t.Errorf("logit %d is %v, want %v", j, v, want.Logits[j])
				}
			}
		})
	}
}

func feed(t testing.TB, d *Decoder, tokens []int32) []float32 {
	t.Helper()
	logits, err := d.Feed(tokens)
	if err != nil {
		t.Fatal(err)
	}
	return logits
}

// Whatever tokens are fed together, their logits are those of the whole context, on every level.
func TestKeptKeysGiveTheLogitsOfTheWholeContext(t *testing.T) {
	for _, want := range testjson.Read[[]continued](t, "testdata/generate.json")[:9:9] {
		if len(want.Prompt) != 40 {
			continue
		}
		m, tokens := loaded(t, network(want.Model, want.Config), texts(80)), append(slices.Clone(want.Prompt), want.Text...)
		kerneltest.AtEachLevel(t, func(t *testing.T) {
			full := whole(t, m, tokens)
			d, err := NewDecoder(m, 1)
			if err != nil {
				t.Fatal(err)
			}
			for _, sizes := range [][]int{{80}, {1, 79}, {31, 33, 1, 1, 1, 13}, {40, 5, 35}} {
				d.Reset()
				for _, n := range sizes {
					logits := feed(t, d, tokens[d.Len():][:n])
					for j, v := range logits {
						if w := full[(d.Len()-1)*19+j]; math.Abs(float64(v-w)) > 1e-5 {
							t.Fatalf("%s, %v: logit %d behind %d tokens is %v, want %v", want.Model, sizes, j, d.Len(), v, w)
						}
					}
				}
			}
		})
	}
}

// doubled is a layer of a program's own that gives two numbers for each of a position.
func doubled(t *testing.T, name graph.Op, alone bool) nn.LayerConfig {
	t.Helper()
	own := op.Own{Name: name, Alone: alone, Shape: func(_ op.Args, in tensor.Shape) (tensor.Shape, error) { return tensor.Shape{in[0], 2 * in[1]}, nil }}
	if err := op.Register(own.Definition()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { op.Remove(name) })
	f32 := ops.OwnKernels[float32]{Forward: func(c *ops.OwnCall[float32]) {
		positions, width := c.Attr.In[0], c.Attr.Out[1]
		for i := range positions * width {
			c.Y[i] = c.X[i/width*c.Attr.In[1]+i%width/2] * float32(1+i%width)
		}
	}}
	ops.ImplementOwn(name, ops.Owning{}, f32, ops.OwnKernels[float64]{})
	return nn.LayerConfig{Type: string(name), Name: "own"}
}

// A layer of a program's own gives the same for a few positions as for all of them.
func TestOwnLayersAtPositions(t *testing.T) {
	cfg := nn.Config{Layers: []nn.LayerConfig{
		{Type: "embedding", Name: "wte", Args: op.Args{"num_embeddings": 19, "embedding_dim": 8}},
		doubled(t, "doubled", true), {Type: "linear", Name: "head", Args: op.Args{"out_features": 19}},
	}}
	m, tokens := loaded(t, cfg, texts(6)), []int32{3, 1, 4, 1, 5, 9}
	full := whole(t, m, tokens)
	d, err := NewDecoder(m, 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{1, 3, 2} {
		logits := feed(t, d, tokens[d.Len():][:n])
		for j, v := range logits {
			if w := full[(d.Len()-1)*19+j]; math.Abs(float64(v-w)) > 1e-5 {
				t.Fatalf("logit %d behind %d tokens is %v, want %v", j, d.Len(), v, w)
			}
		}
	}
	cfg.Layers[1] = doubled(t, "mixed", false)
	if _, err := NewDecoder(loaded(t, cfg, texts(6)), 1); err == nil || !strings.Contains(err.Error(), "own (mixed) needs all positions at once") {
		t.Error(err)
	}
}

// What needs all positions at once is refused by the name of its layer.
func TestModelsThatCannotGenerate(t *testing.T) {
	image := sdk.DatasetSpec{Input: tensor.Spec{DType: tensor.F32, Shape: tensor.Shape{1, 28, 28}}, Target: tensor.Spec{DType: tensor.I32}, Classes: 10}
	layers := func(l ...nn.LayerConfig) nn.Config {
		embedding := nn.LayerConfig{Type: "embedding", Name: "wte", Args: op.Args{"num_embeddings": 19, "embedding_dim": 8}}
		return nn.Config{Layers: append(append([]nn.LayerConfig{embedding}, l...), nn.LayerConfig{Type: "linear", Name: "head", Args: op.Args{"out_features": 19}})}
	}
	for _, c := range []struct {
		cfg  nn.Config
		spec *sdk.DatasetSpec
		want string
	}{
		{nn.Config{Name: "convnet"}, &image, "samples of"},
		{layers(nn.LayerConfig{Type: "attention", Name: "heads", Args: op.Args{"heads": 1}}), texts(6), "not divisible"},
		{layers(nn.LayerConfig{Type: "linear", Name: "qkv", Args: op.Args{"out_features": 24}}, nn.LayerConfig{Type: "attention", Name: "look", Args: op.Args{"heads": 2}}), texts(6), "look (attention) is not causal"},
		{layers(nn.LayerConfig{Type: "permute", Name: "swap", Args: op.Args{"dims": []int{0, 2, 1}}}, nn.LayerConfig{Type: "permute", Name: "back", Args: op.Args{"dims": []int{0, 2, 1}}}), texts(6), "swap (permute) needs all positions at once"},
		{layers(nn.LayerConfig{Type: "layernorm", Name: "norm", Args: op.Args{"normalized_shape": []int{6, 8}}}), texts(6), "norm (layernorm) works across positions"},
	} {
		g, err := nn.Build(c.cfg, c.spec.Input, c.spec.Target, c.spec.Classes)
		if err == nil {
			_, err = NewDecoder(&Model{Graph: g, Weights: make([]tensor.Tensor, len(g.StateDict()))}, 1)
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}

func TestTokenOutsideTheVocabulary(t *testing.T) {
	d, err := NewDecoder(loaded(t, nn.Config{Name: "gpt2", Args: op.Args{"n_layer": 1, "n_head": 2, "n_embd": 8}}, texts(6)), 1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Feed([]int32{19}); err == nil || !strings.Contains(err.Error(), "19, outside 0 to 18") {
		t.Error(err)
	}
}

// One token with the keys of all before it, and the same token with the whole context computed anew.
func BenchmarkToken(b *testing.B) {
	for _, s := range [][5]int{{4, 4, 128, 64, 65}, {6, 6, 384, 256, 65}, {12, 12, 768, 1024, 50257}} {
		row := tensor.Spec{DType: tensor.I32, Shape: tensor.Shape{s[3]}}
		spec := &sdk.DatasetSpec{Input: row, Target: row, Vocabulary: s[4], Classes: s[4]}
		cfg := nn.Config{Name: "gpt2", Args: op.Args{"n_layer": s[0], "n_head": s[1], "n_embd": s[2], "n_positions": s[3]}}
		g, err := nn.Build(cfg, spec.Input, spec.Target, spec.Classes)
		if err != nil {
			b.Fatal(err)
		}
		m := &Model{Graph: g}
		for _, e := range g.StateDict() {
			m.Weights = append(m.Weights, tensor.New(e.Spec.DType, e.Spec.Shape...))
		}
		name := fmt.Sprintf("%dx%d,context=%d", s[0], s[2], s[3])
		b.Run(name+"/kept", func(b *testing.B) {
			d, err := NewDecoder(m, 1)
			if err != nil {
				b.Fatal(err)
			}
			feed(b, d, make([]int32, s[3]-1))
			for b.Loop() {
				d.done = s[3] - 1 // the most expensive token
				feed(b, d, []int32{1})
			}
		})
		b.Run(name+"/whole", func(b *testing.B) {
			p, _, _, err := m.program(cpu.New(), plan.Options{Batch: 1}, nil)
			if err != nil {
				b.Fatal(err)
			}
			in := make([]byte, 4*s[3])
			for b.Loop() {
				p.Run(plan.Args{Input: in})
			}
		})
	}
}
