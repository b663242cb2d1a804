package nn

import (
	"fmt"
	"strconv"

	"github.com/trainctl/trainctl/core/base/usererr"
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/tensor"
)

// settings are a named model's own keys of [model]: those given, else their defaults.
type settings struct {
	given op.Args
	keys  []op.Key
}

func setting[T any](s settings, name string) (v T, ok bool) {
	v, ok = s.given[name].(T)
	return v, ok
}

func (s settings) float(name string) float64 {
	if v, ok := setting[float64](s, name); ok {
		return v
	}
	for _, k := range s.keys {
		if k.Name == name {
			return k.Default
		}
	}
	panic("nn: no key " + name)
}

func (s settings) bool(name string) bool { v, _ := setting[bool](s, name); return v }

// pass adds what was given of some keys to the arguments of a layer.
func (s settings) pass(some []op.Key, to op.Args) op.Args {
	for _, k := range some {
		if v, ok := s.given[k.Name]; ok {
			to[k.Name] = v
		}
	}
	return to
}

func (s settings) int(name string) int { return s.intOr(name, int(s.float(name))) }

// intOr is for a key whose default follows from others.
func (s settings) intOr(name string, d int) int {
	if v, ok := setting[int](s, name); ok {
		return v
	}
	return d
}

// divisible reports a width that does not divide into heads.
func (s settings) divisible(l *usererr.List, width, heads string) {
	if w, h := s.int(width), s.int(heads); h > 0 && w%h != 0 {
		l.Addf(heads, "", "%s %d is not divisible into %d heads", width, w, h)
	}
}

// fits checks that samples are sequences of tokens no longer than a key says.
func (s settings) fits(positions string, in tensor.Shape) error {
	if len(in) != 1 {
		return fmt.Errorf("it needs sequences of tokens, but the samples are %v", in)
	}
	if n := s.int(positions); in[0] > n {
		return usererr.List{{Key: positions, Detail: fmt.Sprintf("the data set's context is %d tokens, but %s is %d", in[0], positions, n), Help: "raise it, or shorten the context"}}.Err()
	}
	return nil
}

// size is a key of a whole number, at least 1.
func size(name string, d int, doc string) op.Key {
	return op.Key{Name: name, Min: 1, Default: float64(d), Doc: doc + "; default " + strconv.Itoa(d)}
}

// derived is a size whose default follows from others.
func derived(name, doc string) op.Key { return op.Key{Name: name, Min: 1, Doc: doc} }

// number is a positive key.
func number(name string, d float64, doc string) op.Key {
	return op.Key{Name: name, Kind: op.Float, Positive: true, Default: d, Doc: doc + "; default " + strconv.FormatFloat(d, 'g', -1, 64)}
}

func probability(name, doc string) op.Key {
	return op.Key{Name: name, Kind: op.Float, Range: [2]float64{0, 1}, Doc: doc + "; default 0"}
}

// sequential is a container of layers.
func sequential(name string, layers ...LayerConfig) LayerConfig {
	return LayerConfig{Type: "sequential", Name: name, Layers: layers}
}

// sum adds the outputs of two layers.
func sum(name string, inputs ...string) LayerConfig {
	return LayerConfig{Type: "add", Name: name, Inputs: inputs}
}

func linear(name string, out int, bias bool) LayerConfig {
	return LayerConfig{Type: "linear", Name: name, Args: op.Args{"out_features": out, "bias": bias}}
}

func embedding(name string, rows, width int) LayerConfig {
	return LayerConfig{Type: "embedding", Name: name, Args: op.Args{"num_embeddings": rows, "embedding_dim": width}}
}

func layerNorm(name string, width int, eps float64) LayerConfig {
	return LayerConfig{Type: "layernorm", Name: name, Args: op.Args{"normalized_shape": []int{width}, "eps": eps}}
}

// dropout is nothing where p is 0.
func dropout(name string, p float64) []LayerConfig {
	if p == 0 {
		return nil
	}
	return []LayerConfig{{Type: "dropout", Name: name, Args: op.Args{"p": p}}}
}

// tiedHead is the projection to logits whose weight is an embedding's.
func tiedHead(classes int, tie string) LayerConfig {
	head := linear("lm_head", classes, false)
	head.Args["tie"] = tie
	return head
}
