package nn

import (
	"slices"
	"strconv"

	"github.com/trainctl/trainctl/core/base/usererr"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/tensor"
)

// llamaKeys are those of transformers' LlamaConfig, with its defaults.
var llamaKeys = append([]op.Key{
	size("num_hidden_layers", 32, "blocks"),
	size("num_attention_heads", 32, "query heads per block"),
	derived("num_key_value_heads", "key and value heads, each for several neighbouring query heads; default num_attention_heads"),
	size("hidden_size", 4096, "width"),
	size("intermediate_size", 11008, "width inside the MLP"),
	derived("head_dim", "width of a head; default hidden_size/num_attention_heads"),
	size("max_position_embeddings", 2048, "longest context, at least the data set's"),
	derived("vocab_size", "rows of the token table, at least the data set's vocabulary; default: as many"),
	number("rope_theta", 10000, "base of rotary positions"),
	number("rms_norm_eps", 1e-6, "added to the mean of squares in norms"),
	{Name: "tie_word_embeddings", Kind: op.Bool, Doc: "the output projection shares the weights of the token table; default false"},
	{Name: "attention_bias", Kind: op.Bool, Doc: "the attention's linear layers have a bias; default false"},
	{Name: "mlp_bias", Kind: op.Bool, Doc: "the MLP's linear layers have a bias; default false"},
	probability("attention_dropout", "dropout of attention weights"),
	number("initializer_range", 0.02, "standard deviation of initial weights"),
}, op.RopeScalingKeys...)

func checkLlama(a op.Args, l *usererr.List) {
	s := settings{a, llamaKeys}
	heads := s.int("num_attention_heads")
	if _, given := a["head_dim"]; !given {
		s.divisible(l, "hidden_size", "num_attention_heads")
	}
	if kv := s.intOr("num_key_value_heads", heads); kv > 0 && heads%kv != 0 {
		l.Addf("num_key_value_heads", "", "%d heads are not divisible by %d key and value heads", heads, kv)
	}
	op.CheckRopeScaling(a, l)
	if _, given := a[ropeContext]; given && s.rope() == op.RopeDynamic {
		l.Addf(ropeContext, "remove it", `rope_type = "dynamic" scales from max_position_embeddings`)
	}
}

// ropeContext is the key of the context length from which rotary positions are scaled.
const ropeContext = "rope_original_max_position_embeddings"

// rope is the type of rotary positions; "": as they are.
func (s settings) rope() string {
	kind, _ := setting[string](s, "rope_type")
	return kind
}

func fitLlama(c Config, in tensor.Shape) error {
	s := settings{c.Args, llamaKeys}
	if s.rope() == op.RopeDynamic && len(in) == 1 {
		return nil // made for longer contexts
	}
	return s.fits("max_position_embeddings", in)
}

// scaledRope adds the scaling of rotary positions to the arguments of an attention. As in transformers, those
// that do not say their original context scale from max_position_embeddings.
func (s settings) scaledRope(to op.Args) op.Args {
	to, most := s.pass(op.RopeScalingKeys, to), s.int("max_position_embeddings")
	switch context := s.intOr(ropeContext, most); s.rope() {
	case op.RopeLong:
		if _, given := s.given["rope_factor"]; !given {
			to["rope_factor"] = float64(most) / float64(context)
		}
		fallthrough
	case op.RopeDynamic, op.RopeYaRN:
		to[ropeContext] = context
	}
	return to
}

// llama is Llama (Touvron et al., 2023; Llama 3, 2024) with the parameters of transformers' LlamaForCausalLM.
func llama(c Config, _ tensor.Shape, classes int) []LayerConfig {
	s := settings{c.Args, llamaKeys}
	width, vocabulary := s.int("hidden_size"), s.intOr("vocab_size", classes)
	before, blocks := "embed_tokens", []LayerConfig(nil)
	for i := range s.int("num_hidden_layers") {
		blocks = append(blocks, s.llamaBlock(strconv.Itoa(i), before))
		before = strconv.Itoa(i)
	}
	head := linear("lm_head", vocabulary, false)
	if s.bool("tie_word_embeddings") {
		head = tiedHead(vocabulary, "model.embed_tokens.weight")
	}
	return []LayerConfig{sequential("model", embedding("embed_tokens", vocabulary, width), sequential("layers", blocks...), s.rmsNorm("norm")), head}
}

func (s settings) rmsNorm(name string) LayerConfig {
	return LayerConfig{Type: "rmsnorm", Name: name, Args: op.Args{"normalized_shape": []int{s.int("hidden_size")}, "eps": s.float("rms_norm_eps")}}
}

// llamaBlock reads the layer called before.
func (s settings) llamaBlock(name, before string) LayerConfig {
	width, heads, inner := s.int("hidden_size"), s.int("num_attention_heads"), s.int("intermediate_size")
	dim, kv := s.intOr("head_dim", width/heads), s.intOr("num_key_value_heads", heads)
	biased, mlpBias := s.bool("attention_bias"), s.bool("mlp_bias")
	from := func(c LayerConfig, input string) LayerConfig { c.Inputs = []string{input}; return c }
	attention := sequential("self_attn",
		linear("q_proj", heads*dim, biased),
		from(linear("k_proj", kv*dim, biased), "input_layernorm"), from(linear("v_proj", kv*dim, biased), "input_layernorm"),
		LayerConfig{Type: "attention", Name: "heads", Inputs: []string{"q_proj", "k_proj", "v_proj"}, Args: s.scaledRope(op.Args{
			"heads": heads, "kv_heads": kv, "causal": true, "rope_theta": s.float("rope_theta"), "dropout": s.float("attention_dropout"),
		})},
		linear("o_proj", width, biased))
	mlp := sequential("mlp",
		linear("gate_proj", inner, mlpBias), LayerConfig{Type: "silu", Name: "act_fn"},
		from(linear("up_proj", inner, mlpBias), "post_attention_layernorm"),
		LayerConfig{Type: "multiply", Name: "gated", Inputs: []string{"act_fn", "up_proj"}},
		linear("down_proj", width, mlpBias))
	return sequential(name,
		s.rmsNorm("input_layernorm"), attention, sum("attn_sum", before, "self_attn"),
		s.rmsNorm("post_attention_layernorm"), mlp, sum("mlp_sum", "attn_sum", "mlp"))
}

// drawLlama draws all matrices from a normal distribution, after PyTorch's layers have
// drawn their defaults: first those of the body, then that of the head.
func drawLlama(c Config, d *drawer) {
	body := slices.DeleteFunc(slices.Clone(d.names), func(name string) bool { return name == "lm_head.weight" })
	for _, names := range [][]string{body, d.names[len(body):]} {
		d.defaults(names)
		for _, name := range names {
			if d.matrix(name) {
				d.normal(name, settings{c.Args, llamaKeys}.float("initializer_range"))
			} else if d.bias(name) {
				d.constant(name, 0)
			}
		}
	}
}
