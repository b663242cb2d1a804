package nn

import (
	"slices"

	"github.com/trainctl/trainctl/core/base/usererr"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/tensor"
)

// model is a network that has a name.
type model struct {
	layers func(c Config, in tensor.Shape, classes int) []LayerConfig
	keys   []op.Key // its own keys of [model]
	check  func(a op.Args, l *usererr.List)
	fits   func(c Config, in tensor.Shape) error // whether it can read samples
	draw   func(c Config, d *drawer)             // initial values; nil: as Initialize says
	adapt  func(a *adapter)                      // for files of other libraries
	stem   bool                                  // takes [model] stem
	fanOut bool                                  // weights of convolutions are normal over fan_out
}

// models are the networks that [model] name knows.
var models = map[string]model{
	"convnet":  {layers: convnet},
	"mlp":      {layers: mlp},
	"gpt2":     {layers: gpt2, keys: gpt2Keys, check: checkGPT2, fits: fitGPT2, draw: drawGPT2, adapt: adaptGPT2},
	"llama":    {layers: llama, keys: llamaKeys, check: checkLlama, fits: fitLlama, draw: drawLlama, adapt: adaptLlama},
	"vit":      {layers: vit, keys: vitKeys, check: checkViT, fits: fitViT, draw: drawViT, adapt: adaptViT},
	"resnet18": {layers: resnet(basicBlock, 2, 2, 2, 2), stem: true, fanOut: true},
	"resnet34": {layers: resnet(basicBlock, 3, 4, 6, 3), stem: true, fanOut: true},
	"resnet50": {layers: resnet(bottleneck, 3, 4, 6, 3), stem: true, fanOut: true},
}

// Names lists the named models, sorted.
func Names() []string {
	var names []string
	for name := range models {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// convnet is the two-block network of the well-known DDP tutorials. Its last
// layer takes what the blocks leave of the input: 7·7·32 for 28×28 images.
func convnet(_ Config, _ tensor.Shape, classes int) []LayerConfig {
	block := func(name string, channels int) LayerConfig {
		return LayerConfig{Type: "sequential", Name: name, Layers: []LayerConfig{
			{Type: "conv2d", Args: op.Args{"out_channels": channels, "kernel_size": op.Pair{5, 5}, "padding": op.Pair{2, 2}}},
			{Type: "batchnorm2d"},
			{Type: "relu"},
			{Type: "maxpool2d", Args: op.Args{"kernel_size": op.Pair{2, 2}}},
		}}
	}
	return []LayerConfig{
		block("layer1", 16), block("layer2", 32),
		{Type: "flatten"},
		{Type: "linear", Name: "fc", Args: op.Args{"out_features": classes}},
	}
}

// mlp is a chain of linear layers with ReLU between them, 512 and 256 wide unless said otherwise.
func mlp(c Config, _ tensor.Shape, classes int) []LayerConfig {
	hidden := c.Hidden
	if len(hidden) == 0 {
		hidden = []int{512, 256}
	}
	layers := []LayerConfig{{Type: "flatten"}}
	for i, width := range hidden {
		layers = append(layers, LayerConfig{Type: "linear", Name: numbered("fc", i+1), Args: op.Args{"out_features": width}}, LayerConfig{Type: "relu"})
	}
	return append(layers, LayerConfig{Type: "linear", Name: numbered("fc", len(hidden)+1), Args: op.Args{"out_features": classes}})
}
