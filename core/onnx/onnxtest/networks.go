package onnxtest

import (
	"slices"
	"testing"

	"github.com/trainctl/trainctl/core/base/rng"
	"github.com/trainctl/trainctl/core/engine/cpu"
	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/engine/nn"
	"github.com/trainctl/trainctl/core/engine/nn/nntest"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/op/activation"
	"github.com/trainctl/trainctl/core/engine/plan"
	"github.com/trainctl/trainctl/core/tensor"
)

// Network is a model and the shape of a sample.
type Network struct {
	Name   string
	Config nn.Config
	Sample tensor.Shape
	Tokens int // vocabulary; 0: the samples are floats
}

// Layer is an entry of a model's layers.
func Layer(typ, name string, args op.Args, inputs ...string) nn.LayerConfig {
	return nn.LayerConfig{Type: typ, Name: name, Args: args, Inputs: inputs}
}

// Pair is an argument of height and width.
func Pair(a, b int) op.Pair { return op.Pair{a, b} }

// Networks are named models and some that have the other layers, small.
var Networks = []Network{
	{"convnet", nn.Config{Name: "convnet"}, tensor.Shape{1, 28, 28}, 0},
	{"resnet18", nn.Config{Name: "resnet18"}, tensor.Shape{3, 32, 32}, 0},
	{"mobilenet", mobile, tensor.Shape{3, 16, 16}, 0},
	{"unet", unet, tensor.Shape{3, 16, 16}, 0},
	{"signals", signals, tensor.Shape{4, 20}, 0},
	{"others", others, tensor.Shape{8, 12, 12}, 0},
	{"gpt2", nn.Config{Name: "gpt2", Args: op.Args{"n_layer": 2, "n_head": 3, "n_embd": 24, "n_positions": 16}}, tensor.Shape{12}, 19},
	{"llama", nn.Config{Name: "llama", Args: op.Args{"num_hidden_layers": 2, "hidden_size": 32, "intermediate_size": 40, "num_attention_heads": 4, "num_key_value_heads": 2, "tie_word_embeddings": true}}, tensor.Shape{12}, 19},
	{"yarn", nn.Config{Name: "llama", Args: op.Args{"num_hidden_layers": 1, "hidden_size": 32, "intermediate_size": 40, "num_attention_heads": 2, "rope_type": "yarn", "rope_factor": 4.0, "rope_original_max_position_embeddings": 8}}, tensor.Shape{12}, 19},
	{"longrope", nn.Config{Name: "llama", Args: op.Args{"num_hidden_layers": 1, "hidden_size": 32, "intermediate_size": 40, "num_attention_heads": 4, "max_position_embeddings": 32, "rope_type": "longrope", "rope_short_factor": []float64{1, 1.5, 2, 3}, "rope_long_factor": []float64{1.1, 2.5, 7, 21.5}, "rope_original_max_position_embeddings": 8}}, tensor.Shape{12}, 19},
	{"llama3", nn.Config{Name: "llama", Args: op.Args{"num_hidden_layers": 1, "hidden_size": 32, "intermediate_size": 40, "num_attention_heads": 2, "rope_type": "llama3", "rope_factor": 4.0, "rope_original_max_position_embeddings": 8}}, tensor.Shape{12}, 19},
	{"vit", nn.Config{Name: "vit", Args: op.Args{"patch_size": 4, "num_layers": 2, "num_heads": 3, "hidden_dim": 24, "mlp_dim": 40}}, tensor.Shape{3, 12, 12}, 0},
}

var mobile = nn.Config{Layers: []nn.LayerConfig{
	Layer("conv2d", "stem", op.Args{"out_channels": 8, "kernel_size": Pair(3, 3), "stride": Pair(2, 2), "padding": Pair(1, 1), "bias": false}),
	Layer("batchnorm2d", "n1", nil), Layer("relu6", "a1", nil),
	Layer("conv2d", "expand", op.Args{"out_channels": 16, "kernel_size": Pair(1, 1)}), Layer("silu", "a2", nil),
	Layer("conv2d", "depth", op.Args{"out_channels": 16, "kernel_size": Pair(3, 3), "padding": Pair(1, 1), "groups": 16}), Layer("leaky_relu", "a3", nil),
	Layer("conv2d", "shrink", op.Args{"out_channels": 8, "kernel_size": Pair(1, 1)}),
	Layer("add", "sum", nil, "shrink", "a1"),
	Layer("adaptive_avgpool2d", "squeeze", op.Args{"output_size": Pair(1, 1)}), Layer("conv2d", "excite", op.Args{"out_channels": 8, "kernel_size": Pair(1, 1)}), Layer("sigmoid", "gate", nil),
	Layer("multiply", "scaled", nil, "sum", "gate"),
	Layer("adaptive_avgpool2d", "pool", op.Args{"output_size": Pair(2, 2)}), Layer("flatten", "flat", nil), Layer("dropout", "drop", op.Args{"p": 0.5}), Layer("linear", "head", op.Args{"out_features": 10}),
}}

var unet = nn.Config{Layers: []nn.LayerConfig{
	Layer("conv2d", "down1", op.Args{"out_channels": 8, "kernel_size": Pair(3, 3), "padding": Pair(1, 1)}), Layer("groupnorm", "g1", op.Args{"num_groups": 4}), Layer(string(activation.GELU), "a1", nil),
	Layer("maxpool2d", "p1", op.Args{"kernel_size": Pair(2, 2)}),
	Layer("conv2d", "down2", op.Args{"out_channels": 12, "kernel_size": Pair(3, 3), "padding": Pair(1, 1)}), Layer(string(activation.GELU), "a2", op.Args{"approximate": "tanh"}),
	Layer("avgpool2d", "p2", op.Args{"kernel_size": Pair(2, 2)}),
	Layer("conv_transpose2d", "up1", op.Args{"out_channels": 12, "kernel_size": Pair(2, 2), "stride": Pair(2, 2)}),
	Layer("concat", "join1", nil, "up1", "a2"),
	Layer("upsample", "up2", op.Args{"scale_factor": 2, "mode": "bilinear"}),
	Layer("concat", "join2", nil, "up2", "a1"),
	Layer("conv2d", "mix", op.Args{"out_channels": 4, "kernel_size": Pair(3, 3), "padding": Pair(1, 1)}), Layer("tanh", "a3", nil),
	Layer("maxpool2d", "p3", op.Args{"kernel_size": Pair(3, 3), "stride": Pair(2, 2), "padding": Pair(1, 1)}), Layer("upsample", "up3", op.Args{"scale_factor": 2}),
	Layer("flatten", "flat", nil), Layer("linear", "head", op.Args{"out_features": 10}),
}}

var signals = nn.Config{Layers: []nn.LayerConfig{
	Layer("conv1d", "c1", op.Args{"out_channels": 6, "kernel_size": Pair(4, 4), "padding": op.Same}), Layer("batchnorm1d", "n1", nil), Layer("softplus", "a1", op.Args{"beta": 2.0}),
	Layer("permute", "swap", op.Args{"dims": []int{0, 2, 1}}), Layer("rmsnorm", "r", op.Args{"normalized_shape": []int{6}}),
	Layer("split", "halves", op.Args{"sizes": []int{2, 4}, "dim": 2}), Layer("linear", "a", op.Args{"out_features": 4}, "halves.0"), Layer("linear", "b", op.Args{"out_features": 4, "bias": false}, "halves.1"),
	Layer("add", "sum", nil, "a", "b"), Layer("softmax", "s", nil), Layer("reshape", "re", op.Args{"shape": []int{8, -1}}),
	Layer("layernorm", "l", op.Args{"normalized_shape": []int{8, 10}, "elementwise_affine": false}),
	Layer("flatten", "flat", nil), Layer("linear", "h", op.Args{"out_features": 12}), Layer("batchnorm1d", "n2", nil), Layer("relu", "r2", nil), Layer("linear", "head", op.Args{"out_features": 10}),
}}

var others = nn.Config{Layers: []nn.LayerConfig{
	Layer("conv_transpose2d", "up", op.Args{"out_channels": 6, "kernel_size": Pair(3, 3), "stride": Pair(2, 2), "padding": Pair(1, 1), "output_padding": Pair(1, 1)}),
	Layer("conv_transpose2d", "wide", op.Args{"out_channels": 4, "kernel_size": Pair(2, 2), "stride": Pair(1, 2), "output_padding": Pair(2, 2), "dilation": Pair(3, 3)}),
	Layer("conv2d", "dilated", op.Args{"out_channels": 6, "kernel_size": Pair(3, 2), "dilation": Pair(2, 3), "stride": Pair(2, 1), "padding": Pair(1, 2)}),
	Layer("avgpool2d", "avg", op.Args{"kernel_size": Pair(3, 3), "stride": Pair(2, 2), "padding": Pair(1, 1), "count_include_pad": false}),
	Layer("maxpool2d", "max", op.Args{"kernel_size": Pair(2, 2), "ceil_mode": true}),
	Layer("flatten", "flat", nil), Layer("linear", "head", op.Args{"out_features": 10}),
}}

// Build is the model's graph, with weights that follow from their names.
func (n *Network) Build(t testing.TB) (*graph.Graph, []tensor.Tensor) {
	t.Helper()
	in, target := tensor.Spec{DType: tensor.F32, Shape: n.Sample}, tensor.Spec{DType: tensor.I32}
	classes := 10
	if n.Tokens > 0 {
		in.DType, target.Shape, classes = tensor.I32, n.Sample, n.Tokens
	}
	g, err := nn.Build(n.Config, in, target, classes)
	if err != nil {
		t.Fatal(err)
	}
	return g, nntest.Weights(g)
}

// Input is a batch of so many samples.
func (n *Network) Input(rows int) []byte {
	x := make([]float32, rows*n.Sample.Elems())
	rng.NewMT(7).UniformF32(x, -2, 2)
	if n.Tokens == 0 {
		return tensor.Bytes(x)
	}
	tokens := make([]int32, len(x))
	for i, v := range x {
		tokens[i] = int32(float32(n.Tokens) * (v + 2) / 4)
	}
	return tensor.Bytes(tokens)
}

// Output is what the engine computes for a batch.
func Output(t testing.TB, g *graph.Graph, weights []tensor.Tensor, rows int, input []byte) []float32 {
	t.Helper()
	p, err := plan.Compile(g, plan.Options{Batch: rows, Output: true, Fuse: true})
	if err != nil {
		t.Fatal(err)
	}
	out := tensor.New(tensor.F32, p.StateSpecs()[p.Output()].Shape...)
	program, err := p.Bind(cpu.New(), plan.State{Tensors: append(slices.Clone(weights), out)})
	if err != nil {
		t.Fatal(err)
	}
	if res := program.Run(plan.Args{Input: input}); res.Err != nil {
		t.Fatal(res.Err)
	}
	return tensor.View[float32](out.Data)
}
