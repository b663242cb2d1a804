package nntest

import (
	"hash/crc32"
	"math"
	"strings"

	"github.com/trainctl/trainctl/core/base/rng"
	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/tensor"
)

// Values are the elements of a parameter or buffer: matrices keep the size of what they
// multiply, scales and variances are near 1, everything else is near 0.
func Values(name string, shape tensor.Shape) []float32 {
	lo, hi := -0.5, 0.5
	switch {
	case len(shape) > 1:
		hi = math.Sqrt(3 / float64(shape[1:].Elems()))
		lo = -hi
	case strings.HasSuffix(name, "weight"), strings.HasSuffix(name, "running_var"):
		lo, hi = 0.5, 1.5
	}
	v := make([]float32, shape.Elems())
	rng.NewMT(uint64(crc32.ChecksumIEEE([]byte(name)))).UniformF32(v, float32(lo), float32(hi))
	return v
}

// Weights are the tensors of a model in state-dict order. Counts of batches are 0.
func Weights(g *graph.Graph) (all []tensor.Tensor) {
	for _, e := range g.StateDict() {
		x := tensor.New(e.Spec.DType, e.Spec.Shape...)
		if e.Spec.DType == tensor.F32 {
			copy(x.Data, tensor.Bytes(Values(e.Name, e.Spec.Shape)))
		}
		all = append(all, x)
	}
	return all
}
