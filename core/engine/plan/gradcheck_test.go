package plan_test

import (
	"math"
	"testing"

	"github.com/trainctl/trainctl/core/base/rng"
	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/engine/nn"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/plan"
	"github.com/trainctl/trainctl/core/tensor"
)

type layers = []nn.LayerConfig

func conv(out, k int) nn.LayerConfig {
	return nn.LayerConfig{Type: "conv2d", Args: op.Args{"out_channels": out, "kernel_size": op.Pair{k, k}}}
}

func linear(out int) nn.LayerConfig {
	return nn.LayerConfig{Type: "linear", Args: op.Args{"out_features": out}}
}

func layer(typ string) nn.LayerConfig { return nn.LayerConfig{Type: typ} }

// reads names a layer's inputs.
func reads(l nn.LayerConfig, inputs ...string) nn.LayerConfig {
	l.Inputs = inputs
	return l
}

func named(name string, l nn.LayerConfig) nn.LayerConfig {
	l.Name = name
	return l
}

func with(l nn.LayerConfig, args op.Args) nn.LayerConfig {
	l.Args = args
	return l
}

// dropped is a residual whose layers half of the passes leave out.
func dropped(ls ...nn.LayerConfig) nn.LayerConfig {
	return nn.LayerConfig{Type: "residual", LayerDrop: ptr(0.5), Layers: ls}
}

func pair(h, w int) op.Pair { return op.Pair{h, w} }

// gradCase is a model; zero specifications are small images and a class.
type gradCase struct {
	layers     layers
	in, target tensor.Spec
	loss       nn.Config // its loss and that one's settings
}

// Pointwise functions are all alike.
func init() {
	for _, d := range op.Layers() {
		if d.Pointwise.Saved != op.SavedNothing {
			gradCases[string(d.Name)] = gradCase{layers: layers{layer("flatten"), linear(9), layer(string(d.Name)), linear(10)}}
		}
	}
}

// gradCases put every operation behind a layer with parameters, so that its
// input's gradient is checked through theirs, and give it its own.
var gradCases = map[string]gradCase{
	"conv2d":              {layers: layers{conv(4, 3), {Type: "conv2d", Args: op.Args{"out_channels": 6, "kernel_size": pair(3, 2), "stride": pair(2, 1), "padding": pair(1, 2), "dilation": pair(2, 1), "groups": 2}}, layer("flatten"), linear(10)}},
	"conv2d without bias": {layers: layers{{Type: "conv2d", Args: op.Args{"out_channels": 2, "kernel_size": pair(1, 3), "bias": false}}, layer("flatten"), linear(10)}},
	"conv2d same":         {layers: layers{conv(3, 3), {Type: "conv2d", Args: op.Args{"out_channels": 2, "kernel_size": pair(2, 4), "padding": op.Same, "dilation": pair(1, 3)}}, layer("flatten"), linear(10)}},
	"conv1d": {layers: layers{{Type: "conv1d", Args: op.Args{"out_channels": 4, "kernel_size": pair(3, 3), "stride": pair(2, 2), "padding": pair(1, 1)}},
		{Type: "conv1d", Args: op.Args{"out_channels": 6, "kernel_size": pair(4, 4), "padding": op.Same, "groups": 2}}, layer("flatten"), linear(10)}, in: tensor.Spec{DType: tensor.F32, Shape: tensor.Shape{3, 11}}},
	"conv_transpose2d": {layers: layers{conv(4, 3), {Type: "conv_transpose2d", Args: op.Args{"out_channels": 6, "kernel_size": pair(3, 2), "stride": pair(3, 2), "padding": pair(1, 0), "output_padding": pair(2, 1), "dilation": pair(2, 1), "groups": 2}},
		{Type: "conv_transpose2d", Args: op.Args{"out_channels": 1, "kernel_size": pair(1, 3), "bias": false}}, layer("flatten"), linear(10)}},
	"conv_transpose2d dilated": {layers: layers{conv(4, 3), {Type: "conv_transpose2d", Args: op.Args{"out_channels": 2, "kernel_size": pair(2, 2), "stride": pair(1, 2), "output_padding": pair(2, 4), "dilation": pair(3, 5)}}, layer("flatten"), linear(10)}},
	"linear over rows":         {layers: layers{linear(3), linear(4), layer("flatten"), {Type: "linear", Args: op.Args{"out_features": 10, "bias": false}}}},
	"batchnorm2d":              {layers: layers{conv(3, 3), layer("batchnorm2d"), layer("flatten"), linear(10)}},
	"batchnorm2d frozen":       {layers: layers{conv(3, 3), layer("batchnorm2d"), layer("relu"), conv(2, 2), {Type: "batchnorm2d", Args: op.Args{"affine": false}}, layer("flatten"), linear(4), layer("batchnorm1d"), linear(10)}, loss: nn.Config{FreezeBatchNorm: true}},
	"batchnorm2d first":        {layers: layers{layer("batchnorm2d"), layer("flatten"), linear(10)}},
	"batchnorm2d plain":        {layers: layers{conv(3, 3), {Type: "batchnorm2d", Args: op.Args{"affine": false}}, layer("flatten"), linear(10)}},
	"batchnorm1d":              {layers: layers{layer("flatten"), linear(6), layer("batchnorm1d"), layer("relu"), linear(10)}},
	"batchnorm1d signals":      {layers: layers{linear(4), layer("batchnorm1d"), layer("flatten"), linear(10)}, in: tensor.Spec{DType: tensor.F32, Shape: tensor.Shape{3, 5}}},
	"groupnorm":                {layers: layers{conv(4, 3), {Type: "groupnorm", Args: op.Args{"num_groups": 2}}, layer("flatten"), linear(10)}},
	"groupnorm features":       {layers: layers{layer("flatten"), linear(6), {Type: "groupnorm", Args: op.Args{"num_groups": 2}}, linear(10)}},
	"groupnorm plain":          {layers: layers{conv(4, 3), {Type: "groupnorm", Args: op.Args{"num_groups": 1, "affine": false}}, layer("flatten"), linear(10)}},
	"layernorm":                {layers: layers{layer("flatten"), linear(12), {Type: "layernorm", Args: op.Args{"normalized_shape": []int{12}}}, linear(10)}},
	"layernorm first":          {layers: layers{{Type: "layernorm", Args: op.Args{"normalized_shape": []int{6, 5}}}, layer("flatten"), linear(10)}},
	"layernorm plain":          {layers: layers{conv(3, 3), {Type: "layernorm", Args: op.Args{"normalized_shape": []int{4, 3}, "elementwise_affine": false}}, layer("flatten"), linear(10)}},
	"layernorm no bias":        {layers: layers{layer("flatten"), linear(12), {Type: "layernorm", Args: op.Args{"normalized_shape": []int{12}, "bias": false}}, linear(10)}},
	"gelu tanh":                {layers: layers{layer("flatten"), linear(9), {Type: "gelu", Args: op.Args{"approximate": "tanh"}}, linear(10)}},
	"maxpool2d":                {layers: layers{conv(3, 2), {Type: "maxpool2d", Args: op.Args{"kernel_size": pair(3, 2), "stride": pair(2, 1), "padding": pair(1, 0), "ceil_mode": true}}, layer("flatten"), linear(10)}},
	"avgpool2d":                {layers: layers{conv(3, 2), {Type: "avgpool2d", Args: op.Args{"kernel_size": pair(3, 2), "padding": pair(1, 1), "ceil_mode": true, "count_include_pad": false}}, layer("flatten"), linear(10)}},
	"avgpool2d padded":         {layers: layers{conv(3, 2), {Type: "avgpool2d", Args: op.Args{"kernel_size": pair(2, 2), "padding": pair(1, 1), "stride": pair(1, 2)}}, layer("flatten"), linear(10)}},
	"adaptive_avgpool2d":       {layers: layers{conv(3, 2), {Type: "adaptive_avgpool2d", Args: op.Args{"output_size": pair(3, 2)}}, layer("flatten"), linear(10)}},
	"dropout":                  {layers: layers{layer("flatten"), linear(20), {Type: "dropout", Args: op.Args{"p": 0.3}}, linear(20), {Type: "dropout", Args: op.Args{"p": 0.5}}, linear(10)}},
	"embedding": {layers: layers{{Type: "embedding", Args: op.Args{"num_embeddings": 7, "embedding_dim": 3}}, layer("flatten"), linear(10)},
		in: tensor.Spec{DType: tensor.I32, Shape: tensor.Shape{5}}},
	"cross_entropy per token": {layers: layers{{Type: "embedding", Args: op.Args{"num_embeddings": 10, "embedding_dim": 3}}, layer("tanh"), linear(10)},
		in: tensor.Spec{DType: tensor.I32, Shape: tensor.Shape{5}}, target: tensor.Spec{DType: tensor.I32, Shape: tensor.Shape{5}}},
	"residual identity": {layers: layers{conv(3, 3), {Type: "residual", Layers: layers{
		{Type: "conv2d", Args: op.Args{"out_channels": 3, "kernel_size": pair(3, 3), "padding": pair(1, 1)}}, layer("tanh")}}, layer("relu"), layer("flatten"), linear(10)}},
	"residual shortcut": {layers: layers{conv(3, 3), {Type: "residual", Layers: layers{layer("tanh"), conv(4, 2), layer("batchnorm2d")},
		Shortcut: layers{conv(4, 2)}}, layer("relu"), layer("flatten"), linear(10)}},
	"residual in residual": {layers: layers{layer("flatten"), linear(6), {Type: "residual", Layers: layers{
		linear(6), {Type: "residual", Layers: layers{layer("sigmoid")}}}, Shortcut: layers{layer("tanh"), {Type: "residual", Layers: layers{linear(6)}}}}, linear(10)}},
	"layerdrop":  {layers: layers{layer("flatten"), linear(6), dropped(linear(6)), dropped(linear(6), layer("tanh"), dropped(linear(6))), dropped(linear(6)), dropped(linear(6)), linear(10)}},
	"sequential": {layers: layers{{Type: "sequential", Name: "body", Layers: layers{layer("flatten"), linear(5), layer("tanh")}}, linear(10)}},
	"two branches": {layers: layers{{Type: "conv2d", Name: "stem", Args: conv(3, 3).Args}, layer("tanh"), conv(2, 2), reads(conv(2, 2), "stem"), reads(layer("sigmoid"), "stem"),
		reads(layer("add"), "2", "3"), layer("flatten"), linear(6), {Type: "flatten", Name: "flat", Inputs: []string{"4"}}, linear(6), reads(layer("add"), "7", "9", "7"), linear(10)}},
	"concat and split": {layers: layers{named("stem", conv(3, 3)), {Type: "split", Name: "cut", Args: op.Args{"sizes": []int{1, 2}}}, reads(layer("tanh"), "cut.1"), reads(layer("concat"), "2", "stem", "cut.0"),
		{Type: "split", Name: "half", Args: op.Args{"chunks": 2, "dim": -2}}, reads(layer("flatten"), "half.1"), linear(10)}},
	"multiply": {layers: layers{named("stem", conv(3, 3)), reads(layer("multiply"), "stem", "stem"), named("gate", with(layer("adaptive_avgpool2d"), op.Args{"output_size": pair(1, 1)})),
		reads(layer("multiply"), "stem", "gate"), named("row", with(layer("adaptive_avgpool2d"), op.Args{"output_size": pair(4, 1)})), reads(layer("multiply"), "3", "row"), layer("flatten"), linear(10)}},
	"permute and reshape": {layers: layers{conv(4, 3), with(layer("permute"), op.Args{"dims": []int{0, 2, 3, 1}}), linear(3), with(layer("permute"), op.Args{"dims": []int{0, 3, 1, 2}}),
		with(layer("reshape"), op.Args{"shape": []int{6, -1}}), linear(5), with(layer("permute"), op.Args{"dims": []int{0, 2, 1}}), linear(2),
		with(layer("reshape"), op.Args{"shape": []int{1, 10, 1}}), with(layer("permute"), op.Args{"dims": []int{0, 3, 2, 1}}), layer("flatten"), linear(10)}},
	"attention": {layers: layers{with(layer("reshape"), op.Args{"shape": []int{10, 6}}), linear(24), with(layer("attention"), op.Args{"heads": 2, "causal": true}), linear(8),
		{Type: "attention", Args: op.Args{"heads": 2, "kv_heads": 1, "dropout": 0.2, "rope_theta": 100.0}}, layer("flatten"), linear(10)}},
	"grouped attention": {layers: layers{named("x", with(layer("reshape"), op.Args{"shape": []int{10, 6}})), named("q", linear(8)), reads(named("k", linear(4)), "x"), reads(named("v", linear(4)), "x"),
		reads(with(layer("attention"), op.Args{"heads": 4, "kv_heads": 2, "causal": true, "rope_theta": 10000.0}), "q", "k", "v"), layer("flatten"), linear(10)}},
	"class_token":                {layers: layers{with(layer("reshape"), op.Args{"shape": []int{12, 5}}), linear(4), layer("class_token"), layer("flatten"), linear(10)}},
	"class_token first":          {layers: layers{with(layer("reshape"), op.Args{"shape": []int{12, 5}}), layer("class_token"), layer("tanh"), layer("flatten"), linear(10)}},
	"rmsnorm":                    {layers: layers{layer("flatten"), linear(12), with(layer("rmsnorm"), op.Args{"normalized_shape": []int{12}}), linear(10)}},
	"rmsnorm first":              {layers: layers{with(layer("rmsnorm"), op.Args{"normalized_shape": []int{6, 5}}), layer("flatten"), linear(10)}},
	"rmsnorm plain":              {layers: layers{layer("flatten"), linear(12), with(layer("rmsnorm"), op.Args{"normalized_shape": []int{12}, "elementwise_affine": false}), linear(10)}},
	"softmax":                    {layers: layers{linear(7), layer("softmax"), layer("flatten"), linear(10)}},
	"position_embedding":         {layers: layers{with(layer("reshape"), op.Args{"shape": []int{12, 5}}), linear(4), layer("position_embedding"), with(layer("position_embedding"), op.Args{"num_positions": 15}), layer("flatten"), linear(10)}},
	"upsample":                   {layers: layers{conv(2, 3), with(layer("upsample"), op.Args{"scale_factor": 2}), with(layer("upsample"), op.Args{"scale_factor": 3, "mode": "bilinear"}), with(layer("avgpool2d"), op.Args{"kernel_size": pair(5, 5)}), layer("flatten"), linear(10)}},
	"mse":                        {layers: layers{layer("flatten"), linear(6), layer("tanh"), linear(4)}, target: numbers},
	"l1":                         {layers: layers{layer("flatten"), linear(6), layer("tanh"), linear(4)}, target: numbers, loss: nn.Config{Loss: "l1"}},
	"huber":                      {layers: layers{layer("flatten"), linear(6), layer("tanh"), linear(4)}, target: numbers, loss: nn.Config{Loss: "huber", HuberDelta: &quarter}},
	"bce_with_logits":            {layers: layers{layer("flatten"), linear(6), layer("tanh"), linear(4)}, target: numbers, loss: nn.Config{Loss: "bce_with_logits"}},
	"soft cross_entropy":         {layers: layers{layer("flatten"), linear(6), layer("tanh"), linear(4)}, target: tensor.Spec{DType: tensor.F32, Shape: tensor.Shape{4}}, loss: weighted(4)},
	"cross_entropy with weights": {layers: layers{layer("flatten"), linear(10)}, loss: weighted(10)},
}

var (
	numbers = tensor.Spec{DType: tensor.F32, Shape: tensor.Shape{2, 2}}
	quarter = 0.25
)

// weighted is a cross-entropy with all settings.
func weighted(classes int) nn.Config {
	c := nn.Config{Loss: "cross_entropy", LabelSmoothing: 0.2}
	for i := range classes {
		c.ClassWeights = append(c.ClassWeights, 0.5+float64(i%3))
	}
	return c
}

// Every operation's gradient, as the plan computes it in float64, is the slope
// of the loss: central differences over every element of every parameter.
func TestGradientsAreSlopes(t *testing.T) {
	seen := map[graph.Op]bool{}
	for name, c := range gradCases {
		for _, fuse := range []bool{true, false} {
			t.Run(name, func(t *testing.T) {
				if c.in.DType == tensor.Invalid {
					c.in = tensor.Spec{DType: tensor.F32, Shape: tensor.Shape{2, 6, 5}}
				}
				if c.target.DType == tensor.Invalid {
					c.target = class
				}
				cfg := c.loss
				cfg.Layers = c.layers
				g := build(t, cfg, c.in, c.target)
				r := newRig(t, g, plan.Options{Batch: 3, Train: true, DType: tensor.F64, Fuse: fuse}, 3)
				checkSlopes(t, r, c.in, c.target)
				for _, s := range r.p.Steps() {
					seen[s.Op] = true
				}
			})
		}
	}
	for _, d := range op.All() {
		if d.Gradient != nil && len(d.Steps) > 0 && !seen[d.Name] && !d.CPUOnly { // the suite of layer plugins compares their gradients with slopes
			t.Errorf("no case runs %s", d.Name)
		}
	}
}

func checkSlopes(t *testing.T, r *rig, in, target tensor.Spec) {
	t.Helper()
	args := plan.Args{Input: randomBytes(in, 3, 5), Target: randomBytes(target, 3, 6), Seed: 1, Step: 2}
	for i := range r.g.Params() { // away from the symmetric start: norms begin at ones and zeros
		w, _ := r.param(i)
		noise := make([]float32, w.Shape.Elems())
		rng.NewMT(uint64(i)).UniformF32(noise, -0.3, 0.3)
		for j, v := range noise {
			w.Set(j, w.At(j)+float64(v))
		}
	}
	for i, e := range r.g.StateDict() { // running statistics that say something
		for j := range e.Spec.Shape.Elems() {
			if v := r.st.Tensors[i]; e.Buffer && v.DType == tensor.F64 {
				v.Set(j, v.At(j)+0.1*float64(j+1))
			}
		}
	}
	r.prog.Run(args)
	var grads []tensor.Tensor
	for _, g := range r.st.Grads {
		c := tensor.New(g.DType, g.Shape...)
		copy(c.Data, g.Data)
		grads = append(grads, c)
	}
	const h = 1e-5
	for i, p := range r.g.Params() {
		w, _ := r.param(i)
		for j := range w.Shape.Elems() {
			x := w.At(j)
			w.Set(j, x+h)
			up := r.prog.Run(args).Loss
			w.Set(j, x-h)
			down := r.prog.Run(args).Loss
			w.Set(j, x)
			slope, got := (up-down)/(2*h), grads[i].At(j)
			if math.Abs(slope-got) > 1e-7*math.Max(1, math.Abs(slope)) {
				t.Fatalf("%s[%d]: gradient %.9g, slope %.9g", p.Name, j, got, slope)
			}
		}
	}
}

// randomBytes draws a batch: floats around zero, small indices.
func randomBytes(s tensor.Spec, batch int, seed uint64) []byte {
	m, n := rng.NewMT(seed), batch*s.Shape.Elems()
	if s.DType == tensor.I32 {
		v := make([]int32, n)
		for i := range v {
			v[i] = int32(m.Uint32() % 7)
		}
		return tensor.Bytes(v)
	}
	v := make([]float32, n)
	m.UniformF32(v, -1, 1)
	return tensor.Bytes(v)
}
