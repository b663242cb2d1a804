package nn

import (
	"fmt"
	"slices"

	"github.com/trainctl/trainctl/core/engine/op"
)

// Config is the table [model].
type Config struct {
	Name   string        `toml:"name"`                         // "convnet", "mlp", "resnet18", "resnet34", "resnet50"; empty when layers are given
	Stem   string        `toml:"stem" words:",imagenet,cifar"` // ResNets: "imagenet" or "cifar" (3×3, stride 1, no max-pool); empty: "imagenet"
	Hidden []int         `toml:"hidden"`                       // mlp: widths of the hidden layers; default [512, 256]
	Layers []LayerConfig `toml:"layers"`                       // the model layer by layer instead of a name
	Freeze []string      `toml:"freeze"`                       // state-dict paths of parameters, or of layers, that are not trained

	FreezeBatchNorm bool `toml:"freeze_batchnorm"` // batch norms train with their running statistics and do not update them

	Init string `toml:"init"` // safetensors file with initial weights, with or without "module."; empty: PyTorch's default initialisation, torchvision's for ResNets

	InitSkip         []string       `toml:"init_skip"`                           // names of tensors in init, or of layers, that are not loaded; * stands for any characters
	InitRename       map[string]any `toml:"init_rename"`                         // strings: names of tensors or layers in init → those of the model
	InitAllowMissing Patterns       `toml:"init_allow_missing"`                  // tensors that init may lack
	InitFallback     string         `toml:"init_fallback" words:",error,random"` // without the file: "error", or "random" to start without it; empty: "error"

	Loss string `toml:"loss"` // one of op.Losses; default by the data set's target

	LabelSmoothing float64   `toml:"label_smoothing"` // cross_entropy
	ClassWeights   []float64 `toml:"class_weights"`   // cross_entropy: of each class; empty: 1
	HuberDelta     *float64  `toml:"huber_delta"`     // huber; default 1
	Args           op.Args   `toml:",inline"`         // own keys of the named model and of the loss, those that are given

	Plugins op.Plugins `toml:"-"` // that compute layers of the type plugin; nil: none were started
}

// PartialInit reports whether tensors may start otherwise than from init.
func (c Config) PartialInit() bool {
	return len(c.InitSkip) > 0 || len(c.InitAllowMissing) > 0
}

// Patterns are names in which * stands for any characters.
type Patterns []string

// UnmarshalTOML reads a list of patterns, or true for all names and false for none.
func (p *Patterns) UnmarshalTOML(v any) error {
	switch v := v.(type) {
	case bool:
		if *p = nil; v {
			*p = Patterns{"*"}
		}
		return nil
	case []any:
		list := make(Patterns, len(v))
		for i, s := range v {
			var ok bool
			if list[i], ok = s.(string); !ok {
				return fmt.Errorf("must be true, or a list of names, got %v", v)
			}
		}
		*p = list
		return nil
	}
	return fmt.Errorf("must be true, or a list of names, got %v", v)
}

// SchemaForms are the JSON Schemas of what UnmarshalTOML takes.
func (Patterns) SchemaForms() []map[string]any {
	return []map[string]any{{"type": "boolean"}, {"type": "array", "items": map[string]any{"type": "string"}}}
}

// ArgKeys lists the keys of Args: those of the named model in the order of
// documentation, then those of the other models, and those of losses.
func (c Config) ArgKeys() (names []string) {
	for _, k := range models[c.Name].keys {
		names = append(names, k.Name)
	}
	return appendNew(appendNew(names, modelKeys()), lossKeys())
}

// ArgKey is the key of that name of some model or loss.
func (c Config) ArgKey(name string) (op.Key, bool) {
	for _, model := range Names() {
		if i := slices.IndexFunc(models[model].keys, func(k op.Key) bool { return k.Name == name }); i >= 0 {
			return models[model].keys[i], true
		}
	}
	return lossKey(name)
}

// Keys are those that a named model takes besides the common ones.
func Keys(model string) []op.Key { return models[model].keys }

// modelKeys are the keys of all models.
func modelKeys() (names []string) {
	for _, model := range Names() {
		for _, k := range models[model].keys {
			names = append(names, k.Name)
		}
	}
	return names
}

func appendNew(names, more []string) []string {
	for _, name := range more {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// LayerConfig is one entry of [[model.layers]]. Args carry PyTorch's names;
// which ones a type takes, core/engine/op says.
type LayerConfig struct {
	Type string  `toml:"type"`    // an operation, "sequential" or "residual"
	Name string  `toml:"name"`    // path in the state dict; default: the index within its parent
	Args op.Args `toml:",inline"` // the operation's own keys, those that are given

	// Inputs name the layers whose outputs this one reads; empty: the layer before.
	// See names.go.
	Inputs []string `toml:"inputs"`

	Options map[string]any `toml:"options"` // plugin: the layer's options, which the plugin publishes

	Layers    []LayerConfig `toml:"layers"`    // sequential, residual
	LayerDrop *float64      `toml:"layerdrop"` // residual: probability that a training pass leaves the layers out, and keeps the shortcut alone
	Shortcut  []LayerConfig `toml:"shortcut"`  // residual; empty: identity

	// Tensors are the parameters that a named model calls otherwise than PATH.NAME,
	// by NAME, with names relative to the layer's parent.
	Tensors map[string]op.Tensor `toml:"-"`
}

// tensorsAt gives the names of a layer at a path.
func (c LayerConfig) tensorsAt(path string) map[string]op.Tensor {
	out := map[string]op.Tensor{}
	for own, t := range c.Tensors {
		out[own] = op.Tensor{Name: join(parentOf(path), t.Name), Lead: t.Lead}
	}
	return out
}

// ArgKeys lists the keys of Args in the order of documentation, those that the type does not take behind.
func (c LayerConfig) ArgKeys() (names []string) {
	if d := op.Layer(c.Type); d != nil {
		for _, k := range d.Keys {
			names = append(names, k.Name)
		}
	}
	return appendNew(names, op.KeyNames())
}

// ArgKey is the key of that name of some operation.
func (c LayerConfig) ArgKey(name string) (op.Key, bool) { return op.KeyNamed(name) }

// PluginLayers calls visit for each layer of the type plugin, with the key of its table below [model].
func (c *Config) PluginLayers(visit func(key string, l *LayerConfig)) {
	pluginLayers("layers", c.Layers, visit)
}

func pluginLayers(key string, layers []LayerConfig, visit func(key string, l *LayerConfig)) {
	for i := range layers {
		l, at := &layers[i], fmt.Sprintf("%s[%d]", key, i)
		if l.Type == string(op.PluginLayer) {
			visit(at, l)
		}
		pluginLayers(at+".layers", l.Layers, visit)
		pluginLayers(at+".shortcut", l.Shortcut, visit)
	}
}

// Plugin is what a layer of the type plugin names; "": the only one.
func (c *LayerConfig) Plugin() string {
	name, _ := c.Args["plugin"].(string)
	return name
}

// LayerDrop reports whether a training pass may leave layers out.
func (c Config) LayerDrop() bool { return anyDrop(c.Layers) }

func anyDrop(layers []LayerConfig) bool {
	for i := range layers {
		if l := &layers[i]; or(l.LayerDrop, 0) > 0 || anyDrop(l.Layers) || anyDrop(l.Shortcut) {
			return true
		}
	}
	return false
}
