package nn

import "github.com/trainctl/trainctl/core/engine/op"

// gpt2Activation is GPT-2's activation in the words of transformers.
const gpt2Activation = "gelu_new"

// mlpActivation is the GELU between the linear layers of a block's MLP: exact, or
// approximated with tanh as GPT-2 has it (Hendrycks and Gimpel, 2016).
func mlpActivation(name string, tanh bool) LayerConfig {
	if tanh {
		return LayerConfig{Type: "gelu", Name: name, Args: op.Args{"approximate": "tanh"}}
	}
	return LayerConfig{Type: "gelu", Name: name}
}
