package infer

import (
	"fmt"

	"github.com/trainctl/trainctl/core/engine/cpu"
	"github.com/trainctl/trainctl/core/engine/plan"
	"github.com/trainctl/trainctl/core/tensor"
)

// Prompts are computed in chunks of chunk positions; fewer than few positions are cheaper one by one.
const (
	chunk = 32
	few   = 3
)

// Decoder computes the logits of the next token. It keeps the keys and values of earlier tokens, so
// that each token costs one pass over the weights instead of one per position.
type Decoder struct {
	one, many pass
	context   int // maximum number of positions of the model
	done      int // positions whose keys and values are kept
	tokens    []int32
}

// pass computes n positions at a time.
type pass struct {
	program *plan.Program
	logits  []float32 // [n, vocabulary]
	n       int
}

// NewDecoder binds a language model to the CPU, with the given number of threads. The error names
// the layer of a model that needs all positions of a sample at once.
func NewDecoder(m *Model, threads int) (*Decoder, error) {
	in := m.Graph.Values[m.Graph.Input()].Spec
	if in.DType != tensor.I32 || len(in.Shape) != 1 {
		return nil, fmt.Errorf("generating needs a model of tokens, and this one reads samples of %v", in)
	}
	d := &Decoder{context: in.Shape[0], tokens: make([]int32, chunk)}
	dev := cpu.NewParallel(threads)
	var kept []tensor.Tensor
	for _, p := range []*pass{&d.one, &d.many} {
		p.n = 1
		if p == &d.many {
			p.n = min(chunk, d.context)
		}
		program, out, all, err := m.program(dev, plan.Options{Batch: 1, Positions: p.n}, kept)
		if err != nil {
			return nil, err
		}
		if want := len(out.Shape); want != 3 {
			return nil, fmt.Errorf("generating needs logits for each position, and the model gives %v", out.Shape)
		}
		kept, p.program, p.logits = all, program, tensor.View[float32](out.Data)
	}
	return d, nil
}

// Context is the model's context length in tokens.
func (d *Decoder) Context() int { return d.context }

// Len is how many tokens have been fed.
func (d *Decoder) Len() int { return d.done }

// Reset forgets all tokens.
func (d *Decoder) Reset() { d.done = 0 }

// Feed adds tokens, at least one and at most as many as the context has room for, and returns the
// logits of what follows the last, valid until the next call. It returns an error for a token
// outside the model's vocabulary.
func (d *Decoder) Feed(tokens []int32) ([]float32, error) {
	if len(tokens) == 0 || d.done+len(tokens) > d.context {
		panic(fmt.Sprintf("infer: %d tokens fed behind %d of %d", len(tokens), d.done, d.context))
	}
	var logits []float32
	for len(tokens) > 0 {
		p, n := &d.one, 1
		if len(tokens) > few && d.done+d.many.n <= d.context {
			p, n = &d.many, min(len(tokens), d.many.n)
		}
		copy(d.tokens, tokens[:n])
		clear(d.tokens[n:]) // their keys are overwritten before anything attends to them
		if res := p.program.Run(plan.Args{Input: tensor.Bytes(d.tokens[:p.n]), Position: d.done}); res.Err != nil {
			return nil, res.Err
		}
		width := len(p.logits) / p.n
		logits = p.logits[(n-1)*width:][:width]
		d.done, tokens = d.done+n, tokens[n:]
	}
	return logits, nil
}
