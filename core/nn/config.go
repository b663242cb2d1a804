package nn

// Config is the table [model].
type Config struct {
	Name   string        `toml:"name"`   // "convnet", "mlp", "resnet18", "resnet34", "resnet50"; empty when layers are given
	Stem   string        `toml:"stem"`   // ResNets: "imagenet" or "cifar" (3×3, stride 1, no max-pool); empty: "imagenet"
	Hidden []int         `toml:"hidden"` // mlp: widths of the hidden layers; default [512, 256]
	Layers []LayerConfig `toml:"layers"` // the model layer by layer instead of a name
	Freeze []string      `toml:"freeze"` // state-dict paths of parameters, or of layers, that are not trained
	Init   string        `toml:"init"`   // safetensors file with initial weights, with or without "module."; empty: PyTorch's default initialisation, torchvision's for ResNets
	Loss   string        `toml:"loss"`   // "cross_entropy" or "mse"; default by the data set's target
}

// LayerConfig is one entry of [[model.layers]]. Arguments carry PyTorch's
// names; nil means not given. Which arguments a type takes is checked.
type LayerConfig struct {
	Type string `toml:"type"` // conv2d, linear, batchnorm2d, layernorm, relu, gelu, sigmoid, tanh, maxpool2d, avgpool2d, adaptive_avgpool2d, flatten, dropout, embedding, sequential, residual
	Name string `toml:"name"` // path in the state dict; default: the index within its parent

	InChannels    *int     `toml:"in_channels"`      // checked against the inferred shape when given
	OutChannels   *int     `toml:"out_channels"`     // conv2d
	KernelSize    IntPair  `toml:"kernel_size"`      // conv2d, pooling: one number or [height, width]
	Stride        IntPair  `toml:"stride"`           // default 1; pooling: kernel_size
	Padding       IntPair  `toml:"padding"`          // default 0
	Dilation      IntPair  `toml:"dilation"`         // default 1
	Groups        *int     `toml:"groups"`           // default 1
	Bias          *bool    `toml:"bias"`             // conv2d, linear; default true
	InFeatures    *int     `toml:"in_features"`      // linear; inferred
	OutFeatures   *int     `toml:"out_features"`     // linear
	NumFeatures   *int     `toml:"num_features"`     // batchnorm2d; inferred
	Eps           *float64 `toml:"eps"`              // norms; default 1e-5
	Momentum      *float64 `toml:"momentum"`         // batchnorm2d; default 0.1
	Affine        *bool    `toml:"affine"`           // batchnorm2d; default true
	NormShape     []int    `toml:"normalized_shape"` // layernorm
	Elementwise   *bool    `toml:"elementwise_affine"`
	Approximate   *string  `toml:"approximate"`       // gelu: "none" or "tanh"
	CeilMode      *bool    `toml:"ceil_mode"`         // pooling
	CountPad      *bool    `toml:"count_include_pad"` // avgpool2d; default true
	OutputSize    IntPair  `toml:"output_size"`       // adaptive_avgpool2d
	P             *float64 `toml:"p"`                 // dropout; default 0.5
	NumEmbeddings *int     `toml:"num_embeddings"`    // embedding
	EmbeddingDim  *int     `toml:"embedding_dim"`     // embedding

	Layers    []LayerConfig `toml:"layers"`    // sequential, residual
	LayerDrop *float64      `toml:"layerdrop"` // residual: probability that a training pass leaves the layers out, and keeps the shortcut alone

	Shortcut []LayerConfig `toml:"shortcut"` // residual; empty: identity
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
