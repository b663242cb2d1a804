package nn

import (
	"math"
	"strconv"
	"strings"

	"github.com/trainctl/trainctl/core/base/usererr"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/tensor"
)

// gpt2Keys are those of transformers' GPT2Config, with its defaults but for dropout.
var gpt2Keys = []op.Key{
	size("n_layer", 12, "blocks"),
	size("n_head", 12, "attention heads per block"),
	size("n_embd", 768, "width"),
	size("n_positions", 1024, "rows of the position table, at least the data set's context"),
	derived("vocab_size", "rows of the token table, at least the data set's vocabulary; default: as many"),
	derived("n_inner", "width inside the MLP; default 4·n_embd"),
	number("layer_norm_epsilon", 1e-5, "added to the variance in layer norms"),
	number("initializer_range", 0.02, "standard deviation of initial weights"),
	probability("embd_pdrop", "dropout after the embeddings"),
	probability("attn_pdrop", "dropout of attention weights"),
	probability("resid_pdrop", "dropout after attention and MLP"),
}

func checkGPT2(a op.Args, l *usererr.List) {
	settings{a, gpt2Keys}.divisible(l, "n_embd", "n_head")
}

func fitGPT2(c Config, in tensor.Shape) error {
	return settings{c.Args, gpt2Keys}.fits("n_positions", in)
}

// gpt2 is GPT-2 (Radford et al., 2019) with the parameters of transformers' GPT2LMHeadModel.
// Its projections are linear layers, [out, in]; see adapt.go for files of transformers, where they are [in, out].
func gpt2(c Config, _ tensor.Shape, classes int) []LayerConfig {
	s := settings{c.Args, gpt2Keys}
	width, vocabulary := s.int("n_embd"), s.intOr("vocab_size", classes)
	embeddings := append([]LayerConfig{
		embedding("wte", vocabulary, width),
		{Type: "position_embedding", Name: "wpe", Args: op.Args{"num_positions": s.int("n_positions")}},
	}, dropout("drop", s.float("embd_pdrop"))...)
	before, blocks := embeddings[len(embeddings)-1].Name, []LayerConfig(nil)
	for i := range s.int("n_layer") {
		blocks = append(blocks, s.gpt2Block(strconv.Itoa(i), before))
		before = strconv.Itoa(i)
	}
	body := append(embeddings, sequential("h", blocks...), layerNorm("ln_f", width, s.float("layer_norm_epsilon")))
	return []LayerConfig{sequential("transformer", body...), tiedHead(vocabulary, "transformer.wte.weight")}
}

// gpt2Block reads the layer called before.
func (s settings) gpt2Block(name, before string) LayerConfig {
	width, eps, drop := s.int("n_embd"), s.float("layer_norm_epsilon"), dropout("drop", s.float("resid_pdrop"))
	attention := append([]LayerConfig{
		linear("c_attn", 3*width, true),
		{Type: "attention", Name: "heads", Args: op.Args{"heads": s.int("n_head"), "causal": true, "dropout": s.float("attn_pdrop")}},
		linear("c_proj", width, true),
	}, drop...)
	mlp := append([]LayerConfig{
		linear("c_fc", s.intOr("n_inner", 4*width), true),
		mlpActivation("act", true),
		linear("c_proj", width, true),
	}, drop...)
	return sequential(name,
		layerNorm("ln_1", width, eps), sequential("attn", attention...), sum("attn_sum", before, "attn"),
		layerNorm("ln_2", width, eps), sequential("mlp", mlp...), sum("mlp_sum", "attn_sum", "mlp"))
}

// drawGPT2 draws weights from a normal distribution, narrower before residual sums,
// and no biases, after PyTorch's layers have drawn their defaults.
func drawGPT2(c Config, d *drawer) {
	s := settings{c.Args, gpt2Keys}
	std := s.float("initializer_range")
	d.defaults(d.names)
	for _, name := range d.names {
		switch {
		case strings.HasSuffix(name, "c_proj.weight"):
			d.normal(name, std/math.Sqrt(2*float64(s.int("n_layer"))))
		case d.matrix(name):
			d.normal(name, std)
		case d.bias(name):
			d.constant(name, 0)
		}
	}
}
