package nn

import (
	"math"
	"strings"

	"github.com/trainctl/trainctl/core/base/rng"
	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/tensor"
)

// drawer gives parameters their initial values by name, with numbers of one generator, as
// the functions of torch/nn/init.py do that its methods are named after. A name that
// does not exist panics.
type drawer struct {
	m       *rng.MT
	names   []string // of parameters, in state-dict order
	params  map[string]*graph.Param
	tensors map[string]tensor.Tensor
}

func newDrawer(g *graph.Graph, seed uint64, state []tensor.Tensor) *drawer {
	d := &drawer{m: rng.NewMT(seed), params: map[string]*graph.Param{}, tensors: map[string]tensor.Tensor{}}
	for i, e := range g.StateDict() {
		if !e.Buffer {
			d.names = append(d.names, e.Name)
			d.params[e.Name], d.tensors[e.Name] = &g.Params()[e.Index], state[i]
		}
	}
	return d
}

func (d *drawer) tensor(name string) tensor.Tensor {
	t, ok := d.tensors[name]
	if !ok {
		panic("nn: no parameter " + name)
	}
	return t
}

func (d *drawer) matrix(name string) bool { return len(d.tensor(name).Shape) > 1 }

func (d *drawer) bias(name string) bool { return strings.HasSuffix(name, ".bias") }

func (d *drawer) fanIn(name string) int { return d.params[name].FanIn }

// defaults draws parameters as their layers' constructors do.
func (d *drawer) defaults(names []string) {
	for _, name := range names {
		initParam(d.m, d.params[name], d.tensors[name])
	}
}

// linear draws weight and bias of a linear layer or a convolution.
func (d *drawer) linear(layer string) {
	for _, name := range []string{layer + ".weight", layer + ".bias"} {
		initParam(d.m, d.params[name], d.tensor(name))
	}
}

// ones gives a norm its initial weight and bias.
func (d *drawer) ones(layer string) {
	d.constant(layer+".weight", 1)
	d.constant(layer+".bias", 0)
}

func (d *drawer) constant(name string, x float32) { fill(d.tensor(name), x) }

func (d *drawer) normal(name string, std float64) {
	write(d.tensor(name), func(v []float32) { d.m.NormalF32(v, float32(std)) })
}

// xavier is xavier_uniform_ of a matrix [out, in] (Glorot and Bengio, 2010).
func (d *drawer) xavier(name string) {
	t := d.tensor(name)
	bound := math.Sqrt(3) * math.Sqrt(2/float64(t.Shape[0]+t.Shape[1]))
	write(t, func(v []float32) { d.m.UniformF32(v, float32(-bound), float32(bound)) })
}

// truncated is trunc_normal_, which cuts at −2 and 2: it draws all numbers again for those outside.
func (d *drawer) truncated(name string, std float64) {
	write(d.tensor(name), func(v []float32) {
		d.m.NormalF32(v, float32(std))
		again := make([]float32, len(v))
		for outside(v) {
			d.m.NormalF32(again, float32(std))
			for i, x := range v {
				if x < -2 || x > 2 {
					v[i] = again[i]
				}
			}
		}
	})
}

func outside(v []float32) bool {
	for _, x := range v {
		if x < -2 || x > 2 {
			return true
		}
	}
	return false
}
