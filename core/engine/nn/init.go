package nn

import (
	"fmt"
	"math"

	"github.com/trainctl/trainctl/core/base/rng"
	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/engine/kernel/convert"
	"github.com/trainctl/trainctl/core/tensor"
)

// Initialize fills state, the model's tensors in state-dict order, as PyTorch's
// layers do by default (reset_parameters in torch/nn/modules): after
// torch.manual_seed(seed), a model that declares the same layers in the same order has
// the same bits. Embeddings of 16 elements and more stay within rounding of
// PyTorch's, whose vectorised sine and logarithm round otherwise.
// Parameters with a fan_out are drawn a second time, all after the first
// drawing, as torchvision's models do at the end of their constructor: those
// weights are within rounding of torchvision's, for the same reason, and all
// others have its bits.
// Numbers are drawn in float32 and converted to the tensors' types.
// Transformers are drawn as their own files say (gpt2.go, llama.go, vit.go).
func Initialize(cfg Config, g *graph.Graph, seed uint64, state []tensor.Tensor) error {
	entries := g.StateDict()
	if len(state) != len(entries) {
		return fmt.Errorf("nn: the model has %d tensors, got %d", len(entries), len(state))
	}
	d := newDrawer(g, seed, state)
	for i, e := range entries {
		t := state[i]
		if !t.Shape.Equal(e.Spec.Shape) {
			return fmt.Errorf("nn: %s: the model has %v, got %v", e.Name, e.Spec.Shape, t.Shape)
		}
		switch {
		case !t.DType.Float():
			clear(t.Data)
		case e.Buffer:
			fill(t, float32(g.Buffers()[e.Index].Init))
		}
	}
	if draw := models[cfg.Name].draw; draw != nil {
		draw(cfg, d)
		return nil
	}
	d.defaults(d.names)
	for _, name := range d.names {
		redraw(d.m, d.params[name].FanOut, d.tensors[name])
	}
	return nil
}

// redraw is kaiming_normal_ with mode fan_out and the gain of a ReLU
// (torch/nn/init.py; torchvision/models/resnet.py).
func redraw(m *rng.MT, fanOut int, t tensor.Tensor) {
	if fanOut == 0 {
		return
	}
	std := float32(math.Sqrt(2) / math.Sqrt(float64(fanOut)))
	write(t, func(v []float32) { m.NormalF32(v, std) })
}

// initParam draws one parameter. Weights are kaiming_uniform_ with a = √5 and
// biases uniform_, both within ±1/√fan_in (He et al., 2015; torch/nn/init.py).
func initParam(m *rng.MT, p *graph.Param, t tensor.Tensor) {
	if p.Init != nil {
		write(t, func(v []float32) { p.Init(m, v) })
		return
	}
	switch p.Role {
	case graph.Weight:
		if p.FanOut != 0 { // drawn again: only what follows depends on this drawing
			m.Skip(t.Shape.Elems())
			return
		}
		gain := math.Sqrt(2.0 / (1 + 5))
		bound := math.Sqrt(3) * (gain / math.Sqrt(float64(p.FanIn)))
		write(t, func(v []float32) { m.UniformF32(v, float32(-bound), float32(bound)) })
	case graph.Bias:
		bound := 1 / math.Sqrt(float64(p.FanIn))
		write(t, func(v []float32) { m.UniformF32(v, float32(-bound), float32(bound)) })
	case graph.Table:
		write(t, func(v []float32) { m.NormalF32(v, 1) })
	case graph.NormWeight:
		fill(t, 1)
	case graph.NormBias:
		fill(t, 0)
	}
}

func fill(t tensor.Tensor, x float32) {
	write(t, func(v []float32) {
		for i := range v {
			v[i] = x
		}
	})
}

// write gives t the numbers that draw makes in float32, in place if it can: a
// large model has no memory for another copy.
func write(t tensor.Tensor, draw func([]float32)) {
	if t.DType == tensor.F32 {
		draw(t.F32())
		return
	}
	v := make([]float32, t.Shape.Elems())
	draw(v)
	convert.Convert(t.DType, t.Data, tensor.F32, tensor.Bytes(v))
}
