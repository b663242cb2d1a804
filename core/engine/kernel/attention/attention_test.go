package attention

import (
	"fmt"
	"math"
	"testing"

	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/kerneltest"
)

// The vector kernels agree with plain Go in float64, for tiles with edges of every kind.
func TestAttentionAgreesWithFloat64(t *testing.T) {
	kerneltest.AtEachLevel(t, func(t *testing.T) {
		for _, h := range []Head{
			{Queries: 64, Keys: 64, Dim: 32, Causal: true},
			{Queries: 5, Keys: 70, Dim: 7},
			{Queries: 200, Keys: 200, Dim: 16, Causal: true},
			{Queries: 130, Keys: 301, Dim: 9},
			{Queries: 33, Keys: 150, Dim: 24, Causal: true},
			{Queries: 71, Keys: 71, Dim: 8, Causal: true, Dropout: Dropout{P: 0.3, Seed: 1, Stream: 2}},
			{Queries: 1, Keys: 1, Dim: 1, Causal: true},
		} {
			name := fmt.Sprintf(" of %+v", h)
			var want [][]float64
			kerneltest.Reference(func() { want = attend[float64](h) })
			for i, got := range attend[float32](h) {
				kerneltest.CloseTo(t, [...]string{"output", "lse", "dq", "dk", "dv"}[i]+name, kerneltest.Widened(got), want[i], 1e-5)
			}
		}
	})
}

// What a score becomes is as near to the exponential as its kernel says; what is too small for a normal number is 0.
func TestSharesAreAccurate(t *testing.T) {
	const leastNormal = 0x1p-126
	kerneltest.IsAccurate(t, "share", kerneltest.Accuracy{ULP: 2.5, Absolute: 1.05 * leastNormal}, func(x, y []float32) {
		for len(x) > 0 {
			n := min(tileKeys, len(x))
			var scores [tileKeys]float32
			for i, v := range x[:n] {
				scores[i] = -max(v, -v)
			}
			expScores(&Head{Queries: 1, Keys: n}, tile{queries: 1, keys: n}, scores[:], 1, make([]float32, 1), make([]float32, 1))
			copy(y, scores[:n])
			x, y = x[n:], y[n:]
		}
	}, func(x float64) float64 { return math.Exp(-math.Abs(x)) })
}

// attend gives output, lse and the gradients of random queries, keys and values.
func attend[T kernel.Float](h Head) [][]T {
	rows := func(seed uint64, n int) Rows[T] {
		x := make([]T, n*(h.Dim+3))
		for i, v := range kerneltest.Random[float32](seed, len(x)) {
			x[i] = T(v)
		}
		return Rows[T]{x, h.Dim + 3}
	}
	q, k, v, out, dy := rows(1, h.Queries), rows(2, h.Keys), rows(3, h.Keys), rows(4, h.Queries), rows(5, h.Queries)
	dq, dk, dv, lse := rows(6, h.Queries), rows(7, h.Keys), rows(8, h.Keys), make([]T, h.Queries)
	Forward(h, nil, q, k, v, out, lse, kerneltest.Poisoned[T](ForwardScratch(h)))
	Backward(h, nil, q, k, v, out, dy, lse, dq, dk, dv, kerneltest.Poisoned[T](BackwardScratch(h)))
	return [][]T{out.Data, lse, dq.Data, dk.Data, dv.Data}
}

// Heads lie side by side in their rows, as a network's do: queries, keys and values of GPT-2's shapes.
func BenchmarkAttention(b *testing.B) {
	for _, s := range [][4]int{{64, 32, 4, 12}, {256, 64, 6, 4}, {64, 64, 12, 4}} { // positions, elements, heads, samples
		h := Head{Queries: s[0], Keys: s[0], Dim: s[1], Causal: true}
		heads, width, images := s[2], s[2]*s[1], s[3]
		packed, dpacked := kerneltest.Random[float32](1, images*s[0]*3*width), kerneltest.Random[float32](2, images*s[0]*3*width)
		out, dy := kerneltest.Random[float32](3, images*s[0]*width), kerneltest.Random[float32](4, images*s[0]*width)
		lse := make([]float32, s[0])
		scratch := make([]float32, max(ForwardScratch(h), BackwardScratch(h)))
		each := func(b *testing.B, f func(x, dx func(which int) Rows[float32], out, dy Rows[float32])) {
			for b.Loop() {
				for i := range images {
					for head := range heads {
						at := func(p []float32) func(int) Rows[float32] {
							return func(which int) Rows[float32] {
								return Rows[float32]{p[i*s[0]*3*width+which*width+head*s[1]:], 3 * width}
							}
						}
						single := i*s[0]*width + head*s[1]
						f(at(packed), at(dpacked), Rows[float32]{out[single:], width}, Rows[float32]{dy[single:], width})
					}
				}
			}
		}
		b.Run(fmt.Sprint("forward", s), func(b *testing.B) {
			each(b, func(x, _ func(int) Rows[float32], out, _ Rows[float32]) {
				Forward(h, nil, x(0), x(1), x(2), out, lse, scratch)
			})
		})
		b.Run(fmt.Sprint("backward", s), func(b *testing.B) {
			each(b, func(x, dx func(int) Rows[float32], out, dy Rows[float32]) {
				Backward(h, nil, x(0), x(1), x(2), out, dy, lse, dx(0), dx(1), dx(2), scratch)
			})
		})
	}
}
