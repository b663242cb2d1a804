package nn

import (
	"fmt"
	"math"
	"strconv"

	"github.com/trainctl/trainctl/core/base/usererr"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/tensor"
)

// vitKeys are the arguments of torchvision's VisionTransformer, with vit_b_16's sizes.
var vitKeys = []op.Key{
	size("patch_size", 16, "side of a patch in pixels, which divides the images' sides"),
	size("num_layers", 12, "blocks"),
	size("num_heads", 12, "attention heads per block"),
	probability("dropout", "dropout after the positions, attention and both layers of the MLP"),
	probability("attention_dropout", "dropout of attention weights"),
	size("hidden_dim", 768, "width"),
	size("mlp_dim", 3072, "width inside the MLP"),
}

func checkViT(a op.Args, l *usererr.List) {
	settings{a, vitKeys}.divisible(l, "hidden_dim", "num_heads")
}

// fitViT checks that patches cover the images.
func fitViT(c Config, in tensor.Shape) error {
	patch := settings{c.Args, vitKeys}.int("patch_size")
	if len(in) != 3 {
		return fmt.Errorf("it needs images [channels, height, width], but the samples are %v", in)
	}
	if in[1]%patch != 0 || in[2]%patch != 0 {
		return usererr.List{{Key: "patch_size", Detail: fmt.Sprintf("images of %d×%d do not divide into patches of %d×%d", in[1], in[2], patch, patch), Help: "choose a divisor of both sides"}}.Err()
	}
	return nil
}

const vitEps = 1e-6 // of layer norms, as in torchvision

// vit is the Vision Transformer (Dosovitskiy et al., 2021) with the parameters of
// torchvision's vit_b_16.
func vit(c Config, in tensor.Shape, classes int) []LayerConfig {
	s := settings{c.Args, vitKeys}
	width, patch := s.int("hidden_dim"), s.int("patch_size")
	layers := dropout("dropout", s.float("dropout"))
	before := "pos"
	if layers != nil {
		before = "dropout"
	}
	layers = append([]LayerConfig{{Type: "position_embedding", Name: "pos", Tensors: map[string]op.Tensor{"weight": {Name: "pos_embedding", Lead: 1}}}}, layers...)
	var blocks []LayerConfig
	for i := range s.int("num_layers") {
		name := "encoder_layer_" + strconv.Itoa(i)
		blocks = append(blocks, s.vitBlock(name, before))
		before = name
	}
	layers = append(layers, sequential("layers", blocks...), layerNorm("ln", width, vitEps))
	return []LayerConfig{
		{Type: "conv2d", Name: "conv_proj", Args: op.Args{"out_channels": width, "kernel_size": op.Pair{patch, patch}, "stride": op.Pair{patch, patch}}},
		{Type: "reshape", Name: "patches", Args: op.Args{"shape": []int{width, -1}}},
		{Type: "permute", Name: "tokens", Args: op.Args{"dims": []int{0, 2, 1}}},
		{Type: "class_token", Name: "with_class", Tensors: map[string]op.Tensor{"weight": {Name: "class_token", Lead: 1}}},
		sequential("encoder", layers...),
		{Type: "split", Name: "cut", Args: op.Args{"sizes": []int{1, in[1] / patch * (in[2] / patch)}}},
		{Type: "flatten", Name: "class", Inputs: []string{"cut.0"}},
		sequential("heads", linear("head", classes, true)),
	}
}

// vitBlock reads the layer called before.
func (s settings) vitBlock(name, before string) LayerConfig {
	width, p := s.int("hidden_dim"), s.float("dropout")
	in := linear("in_proj", 3*width, true)
	in.Tensors = map[string]op.Tensor{"weight": {Name: "in_proj_weight"}, "bias": {Name: "in_proj_bias"}}
	attention := sequential("self_attention", in,
		LayerConfig{Type: "attention", Name: "heads", Args: op.Args{"heads": s.int("num_heads"), "dropout": s.float("attention_dropout")}},
		linear("out_proj", width, true))
	mlp := append([]LayerConfig{linear("0", s.int("mlp_dim"), true), mlpActivation("1", false)}, dropout("2", p)...)
	mlp = append(append(mlp, linear("3", width, true)), dropout("4", p)...)
	layers := append([]LayerConfig{layerNorm("ln_1", width, vitEps), attention}, dropout("dropout", p)...)
	return sequential(name, append(layers,
		sum("attn_sum", before, layers[len(layers)-1].Name),
		layerNorm("ln_2", width, vitEps), sequential("mlp", mlp...), sum("mlp_sum", "attn_sum", "mlp"))...)
}

// drawViT draws in the order of torchvision's constructors.
func drawViT(c Config, d *drawer) {
	s := settings{c.Args, vitKeys}
	d.linear("conv_proj")
	d.constant("class_token", 0)
	d.normal("encoder.pos_embedding", 0.02)
	for i := range s.int("num_layers") {
		at := "encoder.layers.encoder_layer_" + strconv.Itoa(i)
		attention := at + ".self_attention"
		d.linear(attention + ".out_proj")
		d.xavier(attention + ".in_proj_weight")
		d.constant(attention+".in_proj_bias", 0)
		d.constant(attention+".out_proj.bias", 0)
		d.linear(at + ".mlp.0")
		d.linear(at + ".mlp.3")
		for _, layer := range []string{at + ".mlp.0", at + ".mlp.3"} {
			d.xavier(layer + ".weight")
			d.normal(layer+".bias", 1e-6)
		}
		d.ones(at + ".ln_1")
		d.ones(at + ".ln_2")
	}
	d.ones("encoder.ln")
	d.linear("heads.head")
	d.truncated("conv_proj.weight", math.Sqrt(1/float64(d.fanIn("conv_proj.weight"))))
	d.constant("conv_proj.bias", 0)
	d.constant("heads.head.weight", 0)
	d.constant("heads.head.bias", 0)
}
