package attention

import (
	"math"

	"github.com/trainctl/trainctl/core/engine/kernel"
)

// Rotary holds the rotary positions of Su et al., "RoFormer" (2021), with pairs
// (j, j+dim/2) as Llama has them: position t turns pair j by t times its frequency.
type Rotary[T kernel.Float] struct {
	dim      int
	cos, sin []T // [positions, dim/2]
}

// NewRotary tabulates positions 0 to n−1 for the frequencies of the pairs of a vector, in
// radians. Angles are float32, as in Hugging Face's models.
func NewRotary[T kernel.Float](frequencies []float32, gain float64, n int) *Rotary[T] {
	r := &Rotary[T]{dim: 2 * len(frequencies)}
	for t := range n {
		for _, f := range frequencies {
			sin, cos := math.Sincos(float64(float32(t) * f))
			r.cos, r.sin = append(r.cos, T(gain*cos)), append(r.sin, T(gain*sin))
		}
	}
	return r
}

// rotatedScratch is what rotated copies of queries and keys need.
func (h *Head) rotatedScratch() int {
	if !h.Rotary {
		return 0
	}
	return padded(h.Queries*h.Dim, h.Keys*h.Dim)
}

// rotated are n rows turned by their positions, in a copy; x itself where there are no positions.
func rotated[T kernel.Float](p *Rotary[T], x Rows[T], n int, r *room[T]) Rows[T] {
	if p == nil {
		return x
	}
	y := Rows[T]{r.take(n * p.dim), p.dim}
	p.turn(x, y, 0, n, 1)
	return y
}

// Turn writes n rows, of positions from first on, turned to y. They are copied where p is nil.
func (p *Rotary[T]) Turn(x, y Rows[T], first, n, dim int) {
	if p != nil {
		p.turn(x, y, first, n, 1)
		return
	}
	for t := range n {
		copy(y.row(t, dim), x.row(t, dim))
	}
}

// Back turns n rows back in place: gradients of rotated rows into those of the
// rows. Nothing happens where p is nil.
func (p *Rotary[T]) Back(x Rows[T], n int) {
	if p != nil {
		p.turn(x, x, 0, n, -1)
	}
}

func (p *Rotary[T]) turn(x, y Rows[T], first, n int, sign T) {
	half := p.dim / 2
	for t := range n {
		cos, sin := p.cos[(first+t)*half:][:half], p.sin[(first+t)*half:][:half]
		from, to := x.row(t, p.dim), y.row(t, p.dim)
		for j, c := range cos {
			a, b, s := from[j], from[j+half], sign*sin[j]
			to[j], to[j+half] = a*c-b*s, b*c+a*s
		}
	}
}
