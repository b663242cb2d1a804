package nn

import (
	"fmt"

	"github.com/trainctl/trainctl/core/diag"
	"github.com/trainctl/trainctl/core/graph"
	"github.com/trainctl/trainctl/core/tensor"
)

// layerType is what the package knows about one type of layer.
type layerType struct {
	needs []string // arguments that have to be given
	takes []string // arguments that may be given
	build func(b *builder, path, key string, c *LayerConfig, x graph.ValueID) (graph.ValueID, error)
}

// types are the layers that [[model.layers]] knows. It is filled by init,
// because a sequential builds layers again.
var types map[string]layerType

func init() {
	types = map[string]layerType{
		"conv2d": {needs: []string{"out_channels", "kernel_size"},
			takes: []string{"in_channels", "stride", "padding", "dilation", "groups", "bias"}, build: buildConv},
		"linear":             {needs: []string{"out_features"}, takes: []string{"in_features", "bias"}, build: buildLinear},
		"batchnorm2d":        {takes: []string{"num_features", "eps", "momentum", "affine"}, build: buildBatchNorm},
		"layernorm":          {needs: []string{"normalized_shape"}, takes: []string{"eps", "elementwise_affine", "bias"}, build: buildLayerNorm},
		"relu":               {build: elementwise((*graph.Graph).ReLU)},
		"sigmoid":            {build: elementwise((*graph.Graph).Sigmoid)},
		"tanh":               {build: elementwise((*graph.Graph).Tanh)},
		"gelu":               {takes: []string{"approximate"}, build: buildGELU},
		"maxpool2d":          {needs: []string{"kernel_size"}, takes: []string{"stride", "padding", "ceil_mode"}, build: buildMaxPool},
		"avgpool2d":          {needs: []string{"kernel_size"}, takes: []string{"stride", "padding", "ceil_mode", "count_include_pad"}, build: buildAvgPool},
		"adaptive_avgpool2d": {needs: []string{"output_size"}, build: buildAdaptivePool},
		"flatten":            {build: elementwise((*graph.Graph).Flatten)},
		"dropout":            {takes: []string{"p"}, build: buildDropout},
		"embedding":          {needs: []string{"num_embeddings", "embedding_dim"}, build: buildEmbedding},
		"sequential":         {needs: []string{"layers"}, build: buildSequential},
		"residual":           {needs: []string{"layers"}, takes: []string{"shortcut", "layerdrop"}, build: buildResidual},
	}
}

func pairOr(p IntPair, d int) [2]int {
	h, w := p.Or(d)
	return [2]int{h, w}
}

// expect refuses an argument that says something else than the input's shape.
func expect(key string, given *int, have int) error {
	if given != nil && *given != have {
		return diag.List{{Key: key, Detail: fmt.Sprintf("%d given, the input has %d", *given, have), Help: "leave it out, it follows from the input"}}.Err()
	}
	return nil
}

// dim is a dimension of x counted from the front, or from the back when
// negative; 0 when it does not exist, which the operation's shape rule reports.
func (b *builder) dim(x graph.ValueID, i int) int {
	s := b.g.Shape(x)
	if i < 0 {
		i += len(s)
	}
	if i < 0 || i >= len(s) {
		return 0
	}
	return s[i]
}

func (b *builder) optional(on bool, name string, role graph.Role, fanIn int, shape ...int) graph.ValueID {
	if !on {
		return graph.None
	}
	return b.g.NewParam(name, role, fanIn, shape...)
}

func buildConv(b *builder, path, key string, c *LayerConfig, x graph.ValueID) (graph.ValueID, error) {
	in, out, groups := b.dim(x, 0), *c.OutChannels, or(c.Groups, 1)
	if err := expect(key+".in_channels", c.InChannels, in); err != nil {
		return graph.None, err
	}
	if in%groups != 0 || out%groups != 0 {
		return graph.None, fmt.Errorf("%s (conv2d): %d input and %d output channels do not divide into %d groups", path, in, out, groups)
	}
	r, s := c.KernelSize.Or(1)
	fan := in / groups * r * s
	w := b.g.NewParam(path+".weight", graph.Weight, fan, out, in/groups, r, s)
	if b.fanOut {
		b.g.DrawNormal(w, out*r*s)
	}
	bias := b.optional(or(c.Bias, true), path+".bias", graph.Bias, fan, out)
	return b.g.Conv2D(path, x, w, bias, graph.Conv2D{
		Stride: pairOr(c.Stride, 1), Padding: pairOr(c.Padding, 0), Dilation: pairOr(c.Dilation, 1), Groups: groups,
	})
}

func buildLinear(b *builder, path, key string, c *LayerConfig, x graph.ValueID) (graph.ValueID, error) {
	in, out := b.dim(x, -1), *c.OutFeatures
	if err := expect(key+".in_features", c.InFeatures, in); err != nil {
		return graph.None, err
	}
	w := b.g.NewParam(path+".weight", graph.Weight, in, out, in)
	bias := b.optional(or(c.Bias, true), path+".bias", graph.Bias, in, out)
	return b.g.Linear(path, x, w, bias)
}

func buildBatchNorm(b *builder, path, key string, c *LayerConfig, x graph.ValueID) (graph.ValueID, error) {
	n := b.dim(x, 0)
	if err := expect(key+".num_features", c.NumFeatures, n); err != nil {
		return graph.None, err
	}
	affine := or(c.Affine, true)
	channels := tensor.Spec{DType: tensor.F32, Shape: tensor.Shape{n}}
	s := graph.BatchNormState{
		Weight:  b.optional(affine, path+".weight", graph.NormWeight, 0, n),
		Bias:    b.optional(affine, path+".bias", graph.NormBias, 0, n),
		Mean:    b.g.NewBuffer(path+".running_mean", channels, 0),
		Var:     b.g.NewBuffer(path+".running_var", channels, 1),
		Batches: b.g.NewBuffer(path+".num_batches_tracked", tensor.Spec{DType: tensor.I64}, 0),
	}
	return b.g.BatchNorm2D(path, x, s, graph.BatchNorm{Eps: or(c.Eps, 1e-5), Momentum: or(c.Momentum, 0.1)})
}

func buildLayerNorm(b *builder, path, _ string, c *LayerConfig, x graph.ValueID) (graph.ValueID, error) {
	affine := or(c.Elementwise, true)
	w := b.optional(affine, path+".weight", graph.NormWeight, 0, c.NormShape...)
	bias := b.optional(affine && or(c.Bias, true), path+".bias", graph.NormBias, 0, c.NormShape...)
	return b.g.LayerNorm(path, x, w, bias, c.NormShape, or(c.Eps, 1e-5))
}

func elementwise(f func(*graph.Graph, string, graph.ValueID) graph.ValueID) func(*builder, string, string, *LayerConfig, graph.ValueID) (graph.ValueID, error) {
	return func(b *builder, path, _ string, _ *LayerConfig, x graph.ValueID) (graph.ValueID, error) {
		return f(b.g, path, x), nil
	}
}

func buildGELU(b *builder, path, _ string, c *LayerConfig, x graph.ValueID) (graph.ValueID, error) {
	return b.g.GELU(path, x, graph.GELU{Tanh: or(c.Approximate, "none") == "tanh"}), nil
}

// pool reads the arguments of a pooling; its stride is the kernel size unless given.
func pool(c *LayerConfig) graph.Pool {
	stride := c.Stride
	if len(stride) == 0 {
		stride = c.KernelSize
	}
	return graph.Pool{Kernel: pairOr(c.KernelSize, 1), Stride: pairOr(stride, 1), Padding: pairOr(c.Padding, 0),
		Ceil: or(c.CeilMode, false), CountPadding: or(c.CountPad, true)}
}

func buildMaxPool(b *builder, path, _ string, c *LayerConfig, x graph.ValueID) (graph.ValueID, error) {
	return b.g.MaxPool2D(path, x, pool(c))
}

func buildAvgPool(b *builder, path, _ string, c *LayerConfig, x graph.ValueID) (graph.ValueID, error) {
	return b.g.AvgPool2D(path, x, pool(c))
}

func buildAdaptivePool(b *builder, path, _ string, c *LayerConfig, x graph.ValueID) (graph.ValueID, error) {
	h, w := c.OutputSize.Or(1)
	return b.g.AdaptiveAvgPool2D(path, x, h, w)
}

func buildDropout(b *builder, path, _ string, c *LayerConfig, x graph.ValueID) (graph.ValueID, error) {
	return b.g.Dropout(path, x, or(c.P, 0.5)), nil
}

func buildEmbedding(b *builder, path, _ string, c *LayerConfig, x graph.ValueID) (graph.ValueID, error) {
	return b.g.Embedding(path, x, b.g.NewParam(path+".weight", graph.Table, 0, *c.NumEmbeddings, *c.EmbeddingDim))
}

func buildSequential(b *builder, path, key string, c *LayerConfig, x graph.ValueID) (graph.ValueID, error) {
	return b.chain(path, b.under(key, "layers"), c.Layers, x)
}

// buildResidual adds the shortcut, or the input itself, to what the main path
// gives. The shortcut's layers are children of the block when they have names,
// and of its child "shortcut" otherwise.
func buildResidual(b *builder, path, key string, c *LayerConfig, x graph.ValueID) (graph.ValueID, error) {
	in, drop := x, or(c.LayerDrop, 0)
	if drop > 0 {
		in = b.g.EnterBranch(path, x, drop)
	}
	y, err := b.chain(path, b.under(key, "layers"), c.Layers, in)
	if err != nil {
		return graph.None, err
	}
	if drop > 0 {
		y = b.g.LeaveBranch(path, y)
	}
	parent := path
	for i := range c.Shortcut {
		if c.Shortcut[i].Name == "" {
			parent = join(path, "shortcut")
		}
	}
	short, err := b.chain(parent, b.under(key, "shortcut"), c.Shortcut, x)
	if err != nil {
		return graph.None, err
	}
	return b.g.Add(path, y, short)
}

func (b *builder) under(key, table string) string {
	if b.named {
		return key
	}
	return key + "." + table
}
