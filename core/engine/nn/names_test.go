package nn_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/trainctl/trainctl/core/engine/nn"
	"github.com/trainctl/trainctl/core/engine/op"
)

// reads is a layer with a name and the names of its inputs.
func reads(typ, name string, inputs ...string) nn.LayerConfig {
	return nn.LayerConfig{Type: typ, Name: name, Inputs: inputs}
}

func linear(out int) nn.LayerConfig {
	return nn.LayerConfig{Type: "linear", Args: op.Args{"out_features": out}}
}

// Errors about a name have its place and the fix.
func TestInputsThatCannotBe(t *testing.T) {
	ptr := func(p float64) *float64 { return &p }
	for _, c := range []struct {
		layers layers
		want   []string
	}{
		{layers{reads("relu", "a"), reads("add", "b", "a", "c"), reads("relu", "c")},
			[]string{`layers[1].inputs[1]: layer "b" reads "c", which comes later (layers[2]): a layer can read only those before it (move that layer in front of this one, or name another)`}},
		{layers{reads("relu", "a"), reads("add", "b", "a", "b")}, []string{`layers[1].inputs[1]: layer "b" reads its own output (name a layer before it)`}},
		{layers{reads("relu", "a"), reads("add", "b", "a", "x")}, []string{`layers[1].inputs[1]: no layer is named "x" (one of input, a)`}},
		{layers{reads("relu", "a"), reads("tanh", "b", "input")}, []string{`layers[0]: nothing reads the output of layer "a" (name it in the inputs of a later layer, or remove it)`}},
		{layers{reads("relu", "a"), reads("tanh", "b", "a", "input")}, []string{`layers[1].inputs: tanh reads 1, 2 given (join them first, with concat, add or multiply)`}},
		{layers{reads("relu", "a"), reads("add", "b")}, []string{`layers[1].inputs: add needs the names of the layers that it reads (such as inputs = ["a", "b"])`}},
		{layers{reads("relu", "a"), reads("add", "b", "a")}, []string{`layers[1].inputs: add reads at least 2 layers, 1 given`}},
		{layers{reads("relu", "a"), {Type: "sequential", Name: "box", Layers: layers{reads("add", "c", "box", "a")}}},
			[]string{`layers[1].layers[0].inputs[0]: layer "box.c" is a part of "box", whose output it reads`}},
		{layers{reads("relu", "a"), {Type: "residual", Name: "r", LayerDrop: ptr(0.5), Layers: layers{reads("relu", "c"), reads("add", "d", "c", "a")}}, reads("add", "e", "r", "r.c")},
			[]string{`layers[1].layers[1].inputs[1]: layers that layerdrop may leave out cannot read "a" by name, nor be read from outside`,
				`layers[2].inputs[1]: layers that layerdrop may leave out cannot read "r.c" by name`}},
		{layers{{Type: "split", Name: "cut", Args: op.Args{"chunks": 2}}, reads("relu", "a")},
			[]string{`layers[0]: layer "cut" has several outputs, and what follows it does not say which one it reads (give the next layer inputs, such as ["cut.0"])`}},
		{layers{{Type: "split", Name: "cut", Args: op.Args{"chunks": 2, "sizes": []int{1}}}, reads("concat", "a", "cut", "cut.1")}, []string{
			"layers[0].chunks: split needs either chunks or sizes", `layers[1].inputs[0]: layer "cut" has several outputs (name one of them, such as "cut.0")`}},
		{layers{{Type: "concat", Inputs: []string{"input", "input"}, Args: op.Args{"dim": 0}}, {Type: "permute", Args: op.Args{"dims": []int{1, 0}}}, {Type: "permute", Args: op.Args{"dims": []int{0, 3, 1}}}, {Type: "reshape", Args: op.Args{"shape": []int{-1, 0, -1}}}},
			[]string{"layers[0].dim: dimension 0 is the batch (count from 1, or from −1 for the last)", "layers[1].dims: [1 0] moves dimension 0, the batch (put 0 first)",
				"layers[2].dims: [0 3 1] does not have each of 0 to 2 once", "layers[3].shape: only one dimension may be −1, 2 are", "layers[3].shape[1]: 0 is not a size"}},
	} {
		var got []string
		for _, p := range (nn.Config{Layers: c.layers}).Problems() {
			got = append(got, p.String())
		}
		if !slices.EqualFunc(got, c.want, strings.HasPrefix) {
			t.Errorf("problems\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
		}
	}
}

// Names lead into containers and out of them; a nearer layer comes first.
func TestInputsFindLayers(t *testing.T) {
	cfg := nn.Config{Layers: layers{
		reads("flatten", "flat"), linear(4), {Type: "sequential", Name: "box", Layers: layers{linear(3), reads("tanh", "act"), linear(4)}},
		{Type: "sequential", Name: "deep", Layers: layers{reads("linear", "own", "box.act"), reads("add", "sum", "own", "1"), reads("add", "", "sum", "box")}},
		linear(10),
	}}
	cfg.Layers[3].Layers[0].Args = op.Args{"out_features": 4}
	const want = "1.weight[4, 784] 1.bias[4] box.0.weight[3, 4] box.0.bias[3] box.2.weight[4, 3] box.2.bias[4] deep.own.weight[4, 3] deep.own.bias[4] 4.weight[10, 4] 4.bias[10]"
	if problems := cfg.Problems(); problems != nil {
		t.Fatal(problems)
	}
	if got := names(t, cfg, digits); got != want {
		t.Errorf("state dict %s, want %s", got, want)
	}
}

// A mismatch of shapes names the layer, its inputs and their shapes.
func TestInputsOfOtherShapes(t *testing.T) {
	cfg := nn.Config{Layers: layers{reads("flatten", "flat"), reads("linear", "a"), reads("linear", "b", "flat"), reads("add", "sum", "a", "b")}}
	cfg.Layers[1].Args, cfg.Layers[2].Args = op.Args{"out_features": 4}, op.Args{"out_features": 5}
	const want = "layers[3]: sum (add): cannot add [5] to [4]: the shapes differ (inputs: a [4], b [5])"
	if _, err := nn.Build(cfg, digits, class, 10); err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}
