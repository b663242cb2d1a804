package nn_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/engine/nn"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/tensor"
)

func smallGPT2(t *testing.T) (g *graph.Graph, file []tensor.Named) {
	t.Helper()
	row := tensor.Spec{DType: tensor.I32, Shape: tensor.Shape{4}}
	g, err := nn.Build(nn.Config{Name: "gpt2", Args: op.Args{"n_layer": 1, "n_head": 2, "n_embd": 6, "n_positions": 4}}, row, row, 5)
	if err != nil {
		t.Fatal(err)
	}
	for i, x := range fillNamed(g, tensor.F32).Tensors {
		file = append(file, tensor.Named{Name: g.StateDict()[i].Name, Tensor: x})
	}
	return g, file
}

// transposed is a file as transformers writes it: the weights of c_attn, c_fc and c_proj are [in, out].
func transposed(file []tensor.Named) []tensor.Named {
	out := slices.Clone(file)
	for i, t := range out {
		if strings.Contains(t.Name, ".c_") && len(t.Shape) == 2 {
			x := tensor.New(tensor.F32, t.Shape[1], t.Shape[0])
			for j := range t.Shape[0] {
				for k := range t.Shape[1] {
					x.F32()[k*t.Shape[0]+j] = t.F32()[j*t.Shape[1]+k]
				}
			}
			out[i].Tensor = x
		}
	}
	return out
}

// Files of all who write GPT-2 give the same tensors; the square attn.c_proj is transposed with the others.
func TestAdaptGPT2(t *testing.T) {
	g, own := smallGPT2(t)
	bare := transposed(own)
	for i := range bare {
		bare[i].Name = strings.TrimPrefix(bare[i].Name, "transformer.")
	}
	mask := tensor.Named{Name: "h.0.attn.bias", Tensor: tensor.New(tensor.F32, 1, 1, 4, 4)}
	head := tensor.Named{Name: "lm_head.weight", Tensor: own[0].Tensor}
	headOnly := append(slices.Clone(own[1:]), head)
	for name, file := range map[string][]tensor.Named{
		"own": own, "Conv1D": transposed(own), "original release": append(bare, mask), "with lm_head": append(slices.Clone(own), head), "lm_head alone": headOnly,
	} {
		got, notes, err := nn.Adapt("gpt2", g, file)
		if err != nil || len(got) != len(own) {
			t.Fatalf("%s: %d tensors of %d, %v", name, len(got), len(own), err)
		}
		for _, want := range own {
			i := slices.IndexFunc(got, func(x tensor.Named) bool { return x.Name == want.Name })
			if i < 0 || !got[i].Shape.Equal(want.Shape) || !slices.Equal(got[i].F32(), want.F32()) {
				t.Errorf("%s: %s differs (%v)", name, want.Name, notes)
			}
		}
	}
	head.Tensor = tensor.New(tensor.F32, 5, 6)
	const want = "lm_head.weight and transformer.wte.weight differ, but the model ties them"
	if _, _, err := nn.Adapt("gpt2", g, append(slices.Clone(own), head)); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

func TestAdaptOldNames(t *testing.T) {
	x := tensor.New(tensor.F32, 1)
	for _, c := range []struct{ model, have, want string }{
		{"vit", "encoder.layers.encoder_layer_0.mlp.linear_2.bias", "encoder.layers.encoder_layer_0.mlp.3.bias"},
		{"llama", "model.layers.0.self_attn.rotary_emb.inv_freq", ""},
		{"llama", "model.norm.weight", "model.norm.weight"},
		{"mlp", "fc1.weight", "fc1.weight"},
	} {
		got, _, err := nn.Adapt(c.model, graph.New(tensor.Spec{}, tensor.Spec{}), []tensor.Named{{Name: c.have, Tensor: x}})
		if err != nil || len(got) > 1 || c.want == "" && len(got) != 0 || c.want != "" && got[0].Name != c.want {
			t.Errorf("%s: %v, %v", c.have, got, err)
		}
	}
}
