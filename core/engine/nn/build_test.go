package nn_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/trainctl/trainctl/core/base/usererr"
	"github.com/trainctl/trainctl/core/engine/nn"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/tensor"
)

type layers = []nn.LayerConfig

func pair(n int) op.Pair { return op.Pair{n, n} }

func names(t *testing.T, cfg nn.Config, in tensor.Spec) string {
	t.Helper()
	g, err := nn.Build(cfg, in, class, 10)
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	for _, e := range g.StateDict() {
		keys = append(keys, fmt.Sprint(e.Name, e.Spec.Shape))
	}
	return strings.Join(keys, " ")
}

func TestStateDictNames(t *testing.T) {
	for _, c := range []struct {
		cfg  nn.Config
		in   tensor.Spec
		want string
	}{
		{nn.Config{Name: "mlp", Hidden: []int{32}}, digits, "fc1.weight[32, 784] fc1.bias[32] fc2.weight[10, 32] fc2.bias[10]"},
		{nn.Config{Name: "convnet"}, tensor.Spec{DType: tensor.F32, Shape: tensor.Shape{3, 32, 32}},
			"layer1.0.weight[16, 3, 5, 5] layer1.0.bias[16] layer1.1.weight[16] layer1.1.bias[16] layer1.1.running_mean[16] layer1.1.running_var[16] layer1.1.num_batches_tracked[] " +
				"layer2.0.weight[32, 16, 5, 5] layer2.0.bias[32] layer2.1.weight[32] layer2.1.bias[32] layer2.1.running_mean[32] layer2.1.running_var[32] layer2.1.num_batches_tracked[] " +
				"fc.weight[10, 2048] fc.bias[10]"},
		{nn.Config{Layers: layers{
			{Type: "residual", Name: "block", Layers: layers{
				{Type: "conv2d", Name: "conv1", Args: op.Args{"out_channels": 2, "kernel_size": pair(1), "bias": false}},
				{Type: "batchnorm2d", Args: op.Args{"affine": false}},
			}, Shortcut: layers{{Type: "conv2d", Args: op.Args{"out_channels": 2, "kernel_size": pair(1), "bias": false}}}},
			{Type: "residual", Layers: layers{{Type: "conv2d", Args: op.Args{"out_channels": 3, "kernel_size": pair(1), "bias": false}}},
				Shortcut: layers{{Type: "sequential", Name: "downsample", Layers: layers{{Type: "conv2d", Args: op.Args{"out_channels": 3, "kernel_size": pair(1), "bias": false}}}}}},
			{Type: "flatten"},
			{Type: "linear", Args: op.Args{"out_features": 10}},
		}}, tensor.Spec{DType: tensor.F32, Shape: tensor.Shape{1, 2, 2}},
			"block.conv1.weight[2, 1, 1, 1] block.1.running_mean[2] block.1.running_var[2] block.1.num_batches_tracked[] block.shortcut.0.weight[2, 1, 1, 1] " +
				"1.0.weight[3, 2, 1, 1] 1.downsample.0.weight[3, 2, 1, 1] 3.weight[10, 12] 3.bias[10]"},
	} {
		if got := names(t, c.cfg, c.in); got != c.want {
			t.Errorf("state dict\n%s\nwant\n%s", got, c.want)
		}
	}
}

// All problems come at once, each with its key, in the order of the table.
func TestProblems(t *testing.T) {
	for _, c := range []struct {
		cfg  nn.Config
		want []string
	}{
		{nn.Config{}, []string{"name: the model has neither a name nor layers (one of convnet, gpt2, llama, mlp, resnet18, resnet34, resnet50, vit, or give layers)"}},
		{nn.Config{Name: "lenet", Loss: "hinge", Args: op.Args{"n_layer": 2}}, []string{`name: unknown model "lenet" (one of convnet, gpt2, llama, mlp, resnet18, resnet34, resnet50, vit)`, `loss: unknown loss "hinge" (bce_with_logits or cross_entropy or huber or l1 or mse)`}},
		{nn.Config{Name: "convnet", Hidden: []int{0}, Layers: layers{{Type: "relu"}}}, []string{
			"layers: the model has both a name and layers (remove one of the two)", "hidden: applies only to the model mlp", "hidden[0]: 0 is less than 1"}},
		{nn.Config{Layers: layers{
			{Type: "conv2d", Args: op.Args{"out_channels": 6, "groups": 4, "padding": op.Pair{0, -1}}},
			{Type: "rellu"},
			{Type: "relu", Args: op.Args{"p": 0.5}, Name: "x"},
			{Type: "dropout", Args: op.Args{"p": 1.5}, Name: "x"},
			{Type: "sequential", Name: "a.b", Layers: layers{{Type: "linear"}, {}}},
			{Type: "residual", Layers: layers{{Type: "relu"}}, Shortcut: layers{{Type: "maxpool2d", Args: op.Args{"kernel_size": op.Pair{0, 1}, "count_include_pad": true}}}},
			{Type: "gelu", Args: op.Args{"approximate": "erf"}},
			{Type: "batchnorm2d", Args: op.Args{"eps": 0.0}},
			{Type: "sequential"},
			{Type: "conv2d", Args: op.Args{"out_channels": 6, "kernel_size": pair(3), "padding": op.Same, "stride": op.Pair{2, 1}}},
			{Type: "conv1d", Args: op.Args{"out_channels": 6, "kernel_size": op.Pair{3, 5}}},
			{Type: "maxpool2d", Args: op.Args{"kernel_size": pair(3), "padding": op.Same}},
			{Type: "conv_transpose2d", Args: op.Args{"out_channels": 6, "kernel_size": pair(3), "stride": op.Pair{2, 1}, "output_padding": op.Pair{1, 1}}},
		}}, []string{
			"layers[0].groups: 6 output channels are not divisible by 4 groups",
			"layers[0].kernel_size: conv2d needs kernel_size",
			"layers[0].padding: -1 is less than 0",
			`layers[1].type: unknown layer type "rellu"`,
			"layers[2].p: relu takes no p (it has no arguments)",
			`layers[3].name: "x" is already the name of layers[2] (choose another name)`,
			"layers[3].p: 1.5 is outside 0 to 1",
			`layers[4].name: the name "a.b" contains a dot (nest a sequential instead)`,
			"layers[4].layers[0].out_features: linear needs out_features",
			"layers[4].layers[1].type: the layer has no type",
			"layers[5].shortcut[0].count_include_pad: maxpool2d takes no count_include_pad (it takes kernel_size, stride, padding, ceil_mode)",
			"layers[5].shortcut[0].kernel_size: 0 is less than 1",
			`layers[6].approximate: unknown approximation "erf" (none or tanh)`,
			"layers[7].eps: 0 is not positive",
			"layers[8].layers: sequential needs layers",
			`layers[9].padding: padding "same" needs stride 1, not 2×1 (give it as a number)`,
			"layers[10].kernel_size: signals have one dimension, got [3 5] (give one number)",
			`layers[11].padding: "same" is for convolutions' padding (one number, or [height, width])`,
			"layers[12].output_padding: 1 is not less than 1, the larger of stride 2×1 and dilation 1",
		}},
	} {
		problems := c.cfg.Problems()
		for i, p := range problems {
			if i >= len(c.want) || !strings.HasPrefix(p.String(), c.want[i]) {
				t.Errorf("problem %d: %s", i, p)
			}
		}
		if len(problems) != len(c.want) {
			t.Errorf("%d problems, want %d", len(problems), len(c.want))
		}
	}
}

// What only shapes can show is reported for the layer, with its path.
func TestBuildErrors(t *testing.T) {
	for _, c := range []struct {
		cfg    nn.Config
		target tensor.Spec
		want   string
	}{
		{nn.Config{Layers: layers{{Type: "sequential", Name: "layer1", Layers: layers{{Type: "relu"},
			{Type: "conv2d", Args: op.Args{"out_channels": 2, "kernel_size": pair(29)}}}}}}, class,
			"layers[0].layers[1]: layer1.1 (conv2d): kernel 29 (dilation 1) is larger than the 28×28 image with padding 0"},
		{nn.Config{Layers: layers{{Type: "flatten"}, {Type: "linear", Args: op.Args{"in_features": 700, "out_features": 10}}}}, class,
			"layers[1].in_features: 700 given, but the input has 784 (omit it: it follows from the input)"},
		{nn.Config{Layers: layers{{Type: "conv2d", Args: op.Args{"out_channels": 4, "groups": 2, "kernel_size": pair(3)}}}}, class,
			"layers[0]: 0 (conv2d): 1 input and 4 output channels are not divisible by 2 groups"},
		{nn.Config{Layers: layers{{Type: "flatten"}, {Type: "linear", Args: op.Args{"out_features": 11}}}}, class,
			"layers: the model gives [11], but the data set needs 10 outputs"},
		{nn.Config{Name: "mlp", Loss: "mse"}, class, "loss: loss (mse): the model gives [10], but the data set's targets are i32[]"},
		{nn.Config{Name: "mlp", Loss: "cross_entropy"}, tensor.Spec{DType: tensor.F32, Shape: tensor.Shape{2, 1}}, "loss: loss (cross_entropy): needs logits of the targets' shape [2, 1], but the model gives [2]"},
		{nn.Config{Name: "mlp", ClassWeights: []float64{1, 2}}, class, "loss: loss (cross_entropy): there are 2 class weights for 10 classes"},
		{nn.Config{Name: "mlp", LabelSmoothing: 0.1}, tensor.Spec{DType: tensor.F32, Shape: tensor.Shape{2}}, "label_smoothing: applies only to the loss cross_entropy"},
	} {
		_, err := nn.Build(c.cfg, digits, c.target, 10)
		problems := usererr.Problems(err)
		if len(problems) != 1 || !strings.HasPrefix(problems[0].String(), c.want) {
			t.Errorf("problems %v, want %q", err, c.want)
		}
	}
	tokens := tensor.Spec{DType: tensor.I32, Shape: tensor.Shape{6}}
	lookup := nn.Config{Layers: layers{{Type: "embedding", Args: op.Args{"num_embeddings": 10, "embedding_dim": 4}}}}
	if _, err := nn.Build(lookup, tokens, tokens, 10); err == nil || !strings.HasPrefix(err.Error(), "layers: the model gives [6, 4], but the data set needs [6, 10], a row for each of its targets") {
		t.Errorf("error %v", err)
	}
	small := tensor.Spec{DType: tensor.F32, Shape: tensor.Shape{1, 3, 3}}
	if _, err := nn.Build(nn.Config{Name: "convnet"}, small, class, 10); err == nil ||
		!strings.HasPrefix(err.Error(), "name: layer2.3 (maxpool2d): kernel 2 is larger than the 1×1 image with padding 0") {
		t.Errorf("error %v", err)
	}
}

func TestRegressionBuildsForTheTarget(t *testing.T) {
	g, err := nn.Build(nn.Config{Name: "mlp"}, digits, tensor.Spec{DType: tensor.F32, Shape: tensor.Shape{2, 2}}, 0)
	if err != nil {
		t.Fatal(err)
	}
	if got := g.Shape(g.Output()); !got.Equal(tensor.Shape{4}) {
		t.Errorf("output %v", got)
	}
	if got := nn.Names(); !slices.Equal(got, []string{"convnet", "gpt2", "llama", "mlp", "resnet18", "resnet34", "resnet50", "vit"}) {
		t.Errorf("models %v", got)
	}
}
