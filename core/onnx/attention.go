package onnx

import (
	"math"

	"github.com/trainctl/trainctl/core/engine/graph"
	"github.com/trainctl/trainctl/core/engine/op"
)

func init() { forms[op.Attention] = attention }

// attention writes softmax(q·kᵀ/√d)·v with heads in groups that share keys: [batch, key heads,
// query heads of each, positions, d].
func attention(b *builder, n *graph.Node) error {
	a := n.Attr.(op.AttentionAttr)
	group, d := a.Heads/a.KVHeads, a.Dim
	parts := make([]string, 3)
	for i := range parts {
		parts[i] = b.in(n, min(i, len(n.In)-1))
	}
	queries, keys := b.shape(n, 0)[0], b.shape(n, len(n.In)/2)[0]
	if len(n.In) == 1 {
		from := 0
		for i, heads := range []int{a.Heads, a.KVHeads, a.KVHeads} {
			parts[i] = b.add("Slice", []string{b.in(n, 0), b.ints("from", from), b.ints("to", from+heads*d), b.ints("axis", 2)})
			from += heads * d
		}
	}
	q := b.transpose(b.reshape(parts[0], queries, a.KVHeads, group, d), 0, 2, 3, 1, 4)
	k := b.transpose(b.reshape(parts[1], keys, a.KVHeads, 1, d), 0, 2, 3, 1, 4)
	v := b.transpose(b.reshape(parts[2], keys, a.KVHeads, 1, d), 0, 2, 3, 1, 4)
	if a.RopeTheta != 0 {
		f, gain := a.Frequencies()
		q, k = b.rotary(q, queries, f, gain), b.rotary(k, keys, f, gain)
	}
	scores := b.add("MatMul", []string{q, b.transpose(k, 0, 1, 2, 4, 3)})
	scores = b.add("Mul", []string{scores, b.floats("scale", nil, float32(1/math.Sqrt(float64(d))))})
	if a.Causal {
		scores = b.add("Add", []string{scores, b.causal(queries, keys)})
	}
	y := b.add("MatMul", []string{b.add("Softmax", []string{scores}, attrInt("axis", -1)), v})
	return b.put(n, b.reshape(b.transpose(y, 0, 3, 1, 2, 4), queries, a.Heads*d))
}

// causal is 0 where query i sees key j ≤ i, and −∞ elsewhere.
func (b *builder) causal(queries, keys int) string {
	mask := make([]float32, queries*keys)
	for i := range queries {
		for j := i + 1; j < keys; j++ {
			mask[i*keys+j] = float32(math.Inf(-1))
		}
	}
	return b.floats("mask", []int{queries, keys}, mask...)
}

// rotary turns pairs (j, j + d/2) of each position t by t·frequencies[j] (Su et al., 2021), with angles in float32, and
// multiplies them by gain.
func (b *builder) rotary(x string, positions int, frequencies []float32, gain float64) string {
	d := 2 * len(frequencies)
	cos, sin := make([]float32, positions*d), make([]float32, positions*d)
	for t := range positions {
		for j := range d {
			s, c := math.Sincos(float64(float32(t) * frequencies[j%(d/2)]))
			cos[t*d+j], sin[t*d+j] = float32(gain*c), float32(gain*s)
		}
	}
	half := func(from int) string {
		return b.add("Slice", []string{x, b.ints("from", from), b.ints("to", from+d/2), b.ints("axis", 4)})
	}
	turned := b.add("Concat", []string{b.add("Neg", []string{half(d / 2)}), half(0)}, attrInt("axis", 4))
	shape := []int{positions, d}
	return b.add("Add", []string{b.add("Mul", []string{x, b.floats("cos", shape, cos...)}), b.add("Mul", []string{turned, b.floats("sin", shape, sin...)})})
}
