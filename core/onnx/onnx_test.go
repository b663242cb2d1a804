package onnx

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trainctl/trainctl/core/base/rng"
	"github.com/trainctl/trainctl/core/engine/cpu"
	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/engine/nn"
	"github.com/trainctl/trainctl/core/engine/nn/nntest"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/plan"
	"github.com/trainctl/trainctl/core/tensor"
)

// Every layer has an ONNX form, so that an operation without one is noticed when it is added.
func TestEveryLayerHasAForm(t *testing.T) {
	types := map[graph.Op]graph.Op{op.BatchNorm1D: op.BatchNorm, op.Conv1D: op.Conv2D}
	for _, d := range op.Layers() {
		name := d.Name
		if other, ok := types[name]; ok {
			name = other
		}
		if formOf(name) == nil {
			t.Errorf("%s has no ONNX form", d.Name)
		}
	}
}

// network is a model of the test and the shape of a sample.
type network struct {
	name   string
	cfg    nn.Config
	sample tensor.Shape
	tokens int // vocabulary; 0: the samples are floats
}

func layer(typ, name string, args op.Args, inputs ...string) nn.LayerConfig {
	return nn.LayerConfig{Type: typ, Name: name, Args: args, Inputs: inputs}
}

var pair = func(a, b int) op.Pair { return op.Pair{a, b} }

// networks are named models and some that have the other layers, small.
var networks = []network{
	{"convnet", nn.Config{Name: "convnet"}, tensor.Shape{1, 28, 28}, 0},
	{"resnet18", nn.Config{Name: "resnet18"}, tensor.Shape{3, 32, 32}, 0},
	{"mobilenet", mobile, tensor.Shape{3, 16, 16}, 0},
	{"unet", unet, tensor.Shape{3, 16, 16}, 0},
	{"signals", signals, tensor.Shape{4, 20}, 0},
	{"others", others, tensor.Shape{8, 12, 12}, 0},
	{"gpt2", nn.Config{Name: "gpt2", Args: op.Args{"n_layer": 2, "n_head": 3, "n_embd": 24, "n_positions": 16}}, tensor.Shape{12}, 19},
	{"llama", nn.Config{Name: "llama", Args: op.Args{"num_hidden_layers": 2, "hidden_size": 32, "intermediate_size": 40, "num_attention_heads": 4, "num_key_value_heads": 2, "tie_word_embeddings": true}}, tensor.Shape{12}, 19},
	{"yarn", nn.Config{Name: "llama", Args: op.Args{"num_hidden_layers": 1, "hidden_size": 32, "intermediate_size": 40, "num_attention_heads": 2, "rope_type": "yarn", "rope_factor": 4.0, "rope_original_max_position_embeddings": 8}}, tensor.Shape{12}, 19},
	{"llama3", nn.Config{Name: "llama", Args: op.Args{"num_hidden_layers": 1, "hidden_size": 32, "intermediate_size": 40, "num_attention_heads": 2, "rope_type": "llama3", "rope_factor": 4.0, "rope_original_max_position_embeddings": 8}}, tensor.Shape{12}, 19},
	{"vit", nn.Config{Name: "vit", Args: op.Args{"patch_size": 4, "num_layers": 2, "num_heads": 3, "hidden_dim": 24, "mlp_dim": 40}}, tensor.Shape{3, 12, 12}, 0},
}

var mobile = nn.Config{Layers: []nn.LayerConfig{
	layer("conv2d", "stem", op.Args{"out_channels": 8, "kernel_size": pair(3, 3), "stride": pair(2, 2), "padding": pair(1, 1), "bias": false}),
	layer("batchnorm2d", "n1", nil), layer("relu6", "a1", nil),
	layer("conv2d", "expand", op.Args{"out_channels": 16, "kernel_size": pair(1, 1)}), layer("silu", "a2", nil),
	layer("conv2d", "depth", op.Args{"out_channels": 16, "kernel_size": pair(3, 3), "padding": pair(1, 1), "groups": 16}), layer("leaky_relu", "a3", nil),
	layer("conv2d", "shrink", op.Args{"out_channels": 8, "kernel_size": pair(1, 1)}),
	layer("add", "sum", nil, "shrink", "a1"),
	layer("adaptive_avgpool2d", "squeeze", op.Args{"output_size": pair(1, 1)}), layer("conv2d", "excite", op.Args{"out_channels": 8, "kernel_size": pair(1, 1)}), layer("sigmoid", "gate", nil),
	layer("multiply", "scaled", nil, "sum", "gate"),
	layer("adaptive_avgpool2d", "pool", op.Args{"output_size": pair(2, 2)}), layer("flatten", "flat", nil), layer("dropout", "drop", op.Args{"p": 0.5}), layer("linear", "head", op.Args{"out_features": 10}),
}}

var unet = nn.Config{Layers: []nn.LayerConfig{
	layer("conv2d", "down1", op.Args{"out_channels": 8, "kernel_size": pair(3, 3), "padding": pair(1, 1)}), layer("groupnorm", "g1", op.Args{"num_groups": 4}), layer("gelu", "a1", nil),
	layer("maxpool2d", "p1", op.Args{"kernel_size": pair(2, 2)}),
	layer("conv2d", "down2", op.Args{"out_channels": 12, "kernel_size": pair(3, 3), "padding": pair(1, 1)}), layer("gelu", "a2", op.Args{"approximate": "tanh"}),
	layer("avgpool2d", "p2", op.Args{"kernel_size": pair(2, 2)}),
	layer("conv_transpose2d", "up1", op.Args{"out_channels": 12, "kernel_size": pair(2, 2), "stride": pair(2, 2)}),
	layer("concat", "join1", nil, "up1", "a2"),
	layer("upsample", "up2", op.Args{"scale_factor": 2, "mode": "bilinear"}),
	layer("concat", "join2", nil, "up2", "a1"),
	layer("conv2d", "mix", op.Args{"out_channels": 4, "kernel_size": pair(3, 3), "padding": pair(1, 1)}), layer("tanh", "a3", nil),
	layer("maxpool2d", "p3", op.Args{"kernel_size": pair(3, 3), "stride": pair(2, 2), "padding": pair(1, 1)}), layer("upsample", "up3", op.Args{"scale_factor": 2}),
	layer("flatten", "flat", nil), layer("linear", "head", op.Args{"out_features": 10}),
}}

var signals = nn.Config{Layers: []nn.LayerConfig{
	layer("conv1d", "c1", op.Args{"out_channels": 6, "kernel_size": pair(4, 4), "padding": op.Same}), layer("batchnorm1d", "n1", nil), layer("softplus", "a1", op.Args{"beta": 2.0}),
	layer("permute", "swap", op.Args{"dims": []int{0, 2, 1}}), layer("rmsnorm", "r", op.Args{"normalized_shape": []int{6}}),
	layer("split", "halves", op.Args{"sizes": []int{2, 4}, "dim": 2}), layer("linear", "a", op.Args{"out_features": 4}, "halves.0"), layer("linear", "b", op.Args{"out_features": 4, "bias": false}, "halves.1"),
	layer("add", "sum", nil, "a", "b"), layer("softmax", "s", nil), layer("reshape", "re", op.Args{"shape": []int{8, -1}}),
	layer("layernorm", "l", op.Args{"normalized_shape": []int{8, 10}, "elementwise_affine": false}),
	layer("flatten", "flat", nil), layer("linear", "h", op.Args{"out_features": 12}), layer("batchnorm1d", "n2", nil), layer("relu", "r2", nil), layer("linear", "head", op.Args{"out_features": 10}),
}}

var others = nn.Config{Layers: []nn.LayerConfig{
	layer("conv_transpose2d", "up", op.Args{"out_channels": 6, "kernel_size": pair(3, 3), "stride": pair(2, 2), "padding": pair(1, 1), "output_padding": pair(1, 1)}),
	layer("conv2d", "dilated", op.Args{"out_channels": 6, "kernel_size": pair(3, 2), "dilation": pair(2, 3), "stride": pair(2, 1), "padding": pair(1, 2)}),
	layer("avgpool2d", "avg", op.Args{"kernel_size": pair(3, 3), "stride": pair(2, 2), "padding": pair(1, 1), "count_include_pad": false}),
	layer("maxpool2d", "max", op.Args{"kernel_size": pair(2, 2), "ceil_mode": true}),
	layer("flatten", "flat", nil), layer("linear", "head", op.Args{"out_features": 10}),
}}

// build has weights that follow from their names.
func (n *network) build(t *testing.T) (*graph.Graph, []tensor.Tensor) {
	t.Helper()
	in, target := tensor.Spec{DType: tensor.F32, Shape: n.sample}, tensor.Spec{DType: tensor.I32}
	classes := 10
	if n.tokens > 0 {
		in.DType, target.Shape, classes = tensor.I32, n.sample, n.tokens
	}
	g, err := nn.Build(n.cfg, in, target, classes)
	if err != nil {
		t.Fatal(err)
	}
	return g, nntest.Weights(g)
}

// input is a batch of so many samples.
func (n *network) input(rows int) []byte {
	x := make([]float32, rows*n.sample.Elems())
	rng.NewMT(7).UniformF32(x, -2, 2)
	if n.tokens == 0 {
		return tensor.Bytes(x)
	}
	tokens := make([]int32, len(x))
	for i, v := range x {
		tokens[i] = int32(float32(n.tokens) * (v + 2) / 4)
	}
	return tensor.Bytes(tokens)
}

// ours is what the engine computes.
func ours(t *testing.T, g *graph.Graph, weights []tensor.Tensor, rows int, input []byte) []float32 {
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

// python is one with onnxruntime, from TRAINCTL_PYTHON; the test skips without.
func python(t *testing.T) string {
	t.Helper()
	exe := os.Getenv("TRAINCTL_PYTHON")
	if exe == "" {
		exe = "python3"
	}
	if out, err := exec.Command(exe, "-c", "import onnx, onnxruntime").CombinedOutput(); err != nil {
		t.Skipf("%s has no onnx and onnxruntime (%v %s); TRAINCTL_PYTHON names one that has", exe, err, out)
	}
	return exe
}

// onnxruntime computes what the engine does, for batches of more than one size from one file.
func TestONNXRuntimeComputesTheSame(t *testing.T) {
	exe, dir := python(t), t.TempDir()
	want := map[string][]float32{}
	for _, n := range networks {
		g, weights := n.build(t)
		b, err := Marshal(g, weights, n.name, "test")
		if err != nil {
			t.Fatalf("%s: %v", n.name, err)
		}
		write(t, filepath.Join(dir, n.name+".onnx"), b)
		for _, rows := range []int{1, 3} {
			name := fmt.Sprintf("%s.%d", n.name, rows)
			write(t, filepath.Join(dir, name+".in"), n.input(rows))
			want[name] = ours(t, g, weights, rows, n.input(rows))
		}
	}
	out, err := exec.Command(exe, "testdata/run.py", dir).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for name, w := range want {
		raw, err := os.ReadFile(filepath.Join(dir, name+".json"))
		if err != nil {
			t.Fatal(err)
		}
		var got []float64
		if err := json.Unmarshal(raw, &got); err != nil || len(got) != len(w) {
			t.Fatalf("%s: %d outputs, want %d (%v)", name, len(got), len(w), err)
		}
		for i, v := range got {
			if d := math.Abs(v - float64(w[i])); !(d <= 1e-5*max(1, math.Abs(v))) {
				t.Errorf("%s: output %d is %v, ours %v", name, i, v, w[i])
				break
			}
		}
	}
}

func write(t *testing.T, path string, b []byte) {
	t.Helper()
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestRefusedModels(t *testing.T) {
	for _, c := range []struct {
		layers []nn.LayerConfig
		want   string
	}{
		{[]nn.LayerConfig{layer("adaptive_avgpool2d", "pool", op.Args{"output_size": pair(5, 5)}), layer("flatten", "f", nil), layer("linear", "head", op.Args{"out_features": 10})}, "pool (adaptive_avgpool2d): has windows of different sizes"},
		{[]nn.LayerConfig{layer("avgpool2d", "avg", op.Args{"kernel_size": pair(3, 3), "stride": pair(2, 2), "ceil_mode": true}), layer("flatten", "f", nil), layer("linear", "head", op.Args{"out_features": 10})}, "avg (avgpool2d): ceil_mode"},
	} {
		n := network{"refused", nn.Config{Layers: c.layers}, tensor.Shape{3, 12, 12}, 0}
		g, weights := n.build(t)
		if _, err := Marshal(g, weights, "refused", "test"); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}
