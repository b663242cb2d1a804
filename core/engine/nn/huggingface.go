package nn

import (
	"fmt"
	"strings"

	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/tensor"
)

// HuggingFace is a model as transformers reads it from a folder: the content of config.json, and
// the tensors of model.safetensors, in which the weights of GPT-2's Conv1D are [in, out]. The
// error is a network that transformers has no class for under the same names.
func HuggingFace(c Config, g *graph.Graph, weights []tensor.Tensor) (config map[string]any, file []tensor.Named, err error) {
	vocabulary := 0
	for i, e := range g.StateDict() {
		t := tensor.Named{Name: e.Name, Tensor: weights[i]}
		if strings.HasSuffix(e.Name, "wte.weight") || strings.HasSuffix(e.Name, "embed_tokens.weight") {
			vocabulary = e.Spec.Shape[0]
		}
		if c.Name == "gpt2" && ofConv1D(t) {
			t.Tensor = transpose(t.Tensor)
		}
		file = append(file, t)
	}
	switch c.Name {
	case "gpt2":
		config = values(c.Args, gpt2Keys)
		config["model_type"], config["architectures"], config["activation_function"] = "gpt2", []string{"GPT2LMHeadModel"}, gpt2Activation
	case "llama":
		s := settings{c.Args, llamaKeys}
		config = values(c.Args, llamaKeys)
		heads := s.int("num_attention_heads")
		config["model_type"], config["architectures"], config["hidden_act"] = "llama", []string{"LlamaForCausalLM"}, "silu"
		config["num_key_value_heads"], config["head_dim"] = s.intOr("num_key_value_heads", heads), s.intOr("head_dim", s.int("hidden_size")/heads)
		config["rope_parameters"] = s.ropeParameters()
		for _, k := range op.RopeScalingKeys {
			delete(config, k.Name)
		}
		for _, flag := range []string{"tie_word_embeddings", "attention_bias", "mlp_bias"} {
			config[flag] = s.bool(flag)
		}
	default:
		return nil, nil, fmt.Errorf("transformers has no model like %q; fix: export gpt2 or llama, or write ONNX", c.Name)
	}
	config["vocab_size"], config["dtype"] = vocabulary, "float32"
	config["bos_token_id"], config["eos_token_id"] = nil, nil // the tokenizer knows them
	return config, file, nil
}

// ropeParameters are the rotary positions in the words of transformers.
func (s settings) ropeParameters() map[string]any {
	out := map[string]any{"rope_type": "default", "rope_theta": s.float("rope_theta")}
	kind := s.rope()
	keys := op.RopeScalingKeysOf(kind)
	if len(keys) == 0 {
		return out
	}
	out["rope_type"] = kind
	given := s.scaledRope(op.Args{})
	delete(given, "rope_type")
	for name, v := range values(given, keys) {
		out[strings.TrimPrefix(name, "rope_")] = v
	}
	for name, v := range out { // neither has a default that is a number
		if v == 0.0 {
			delete(out, name)
		}
	}
	return out
}

// values are the values of a model's keys, of those that are given or have a default.
func values(a op.Args, keys []op.Key) map[string]any {
	s, out := settings{a, keys}, map[string]any{}
	for _, k := range keys {
		switch {
		case a[k.Name] != nil:
			out[k.Name] = a[k.Name]
		case k.Kind == op.Float:
			out[k.Name] = s.float(k.Name)
		case k.Kind == op.Int && s.int(k.Name) > 0:
			out[k.Name] = s.int(k.Name)
		}
	}
	return out
}
