package nn_test

import (
	"crypto/sha256"
	"encoding/hex"
	"testing"

	"github.com/trainctl/trainctl/core/base/testjson"
	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/engine/nn"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/tensor"
)

var (
	digits = tensor.Spec{DType: tensor.F32, Shape: tensor.Shape{1, 28, 28}}
	class  = tensor.Spec{DType: tensor.I32}
)

// testModels are the models of testdata/golden.py.
var testModels = map[string]nn.Config{
	"convnet": {Name: "convnet"},
	"mlp":     {Name: "mlp"},
	"layers": {Layers: []nn.LayerConfig{
		{Type: "conv2d", Args: op.Args{"out_channels": 4, "kernel_size": op.Pair{3, 5}, "stride": op.Pair{1, 2}, "bias": false}},
		{Type: "batchnorm2d"},
		{Type: "relu"},
		{Type: "conv2d", Args: op.Args{"out_channels": 6, "kernel_size": op.Pair{3, 3}, "groups": 2}},
		{Type: "flatten"},
		{Type: "linear", Args: op.Args{"out_features": 12}},
		{Type: "layernorm", Args: op.Args{"normalized_shape": []int{12}}},
		{Type: "linear", Args: op.Args{"out_features": 10, "bias": false}},
	}},
}

func newState(g *graph.Graph) []tensor.Tensor {
	var state []tensor.Tensor
	for _, e := range g.StateDict() {
		state = append(state, tensor.New(e.Spec.DType, e.Spec.Shape...))
	}
	return state
}

// Same seed, same layers: names, shapes and bits of every tensor are those that
// PyTorch's state_dict has after torch.manual_seed.
func TestInitializeIsPyTorchs(t *testing.T) {
	type initGolden struct {
		Model   string
		Seed    uint64
		Tensors []struct {
			Name, SHA256 string
			Shape        tensor.Shape
		}
	}
	for _, golden := range testjson.Read[[]initGolden](t, "testdata/golden.json") {
		g, err := nn.Build(testModels[golden.Model], digits, class, 10)
		if err != nil {
			t.Fatal(err)
		}
		state := newState(g)
		if err := nn.Initialize(testModels[golden.Model], g, golden.Seed, state); err != nil {
			t.Fatal(err)
		}
		if len(state) != len(golden.Tensors) {
			t.Fatalf("%s has %d tensors, PyTorch's %d", golden.Model, len(state), len(golden.Tensors))
		}
		for i, want := range golden.Tensors {
			name, sum := g.StateDict()[i].Name, sha256.Sum256(state[i].Data)
			if name != want.Name || !state[i].Shape.Equal(want.Shape) {
				t.Errorf("%s: tensor %d is %s %v, PyTorch's %s %v", golden.Model, i, name, state[i].Shape, want.Name, want.Shape)
			} else if got := hex.EncodeToString(sum[:]); got != want.SHA256 {
				t.Errorf("%s, seed %d: the bits of %s are not PyTorch's", golden.Model, golden.Seed, name)
			}
		}
	}
}
