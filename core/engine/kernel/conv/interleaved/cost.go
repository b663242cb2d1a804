package interleaved

import (
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/cost"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/geometry"
)

// What convolutions of interleaved planes do.
const (
	products   = cost.Own + iota // of vectors
	dots                         // the same, of weight gradients
	transposed                   // vectors of one pixel that planes are copied to or from
	strips                       // of a block of planes
	calls                        // of the kernels that sum
)

// Rates is the cycles of each.
var Rates = cost.Rates{
	kernel.AVX2:   {products: 0.66, dots: 0.547, transposed: 2.59, strips: 34, calls: 74.4},
	kernel.AVX512: {products: 0.868, dots: 0.841, transposed: 4.59, strips: 40.2, calls: 76.8},
}

// Terms counts what a direction of p does. See package cost.
func Terms(p *geometry.Shape, d geometry.Direction) (t cost.Terms) {
	s := newPlanes(p, d)
	blocks, taps := float64(p.N*p.C)/float64(s.lanes), float64(s.all())
	phases := s.row.stride * s.column.stride
	work, called := products, phases
	if d == geometry.ToWeight {
		work, called = dots, kernel.CeilDiv(s.taps(), mostDots)
	}
	t[work] = blocks * float64(s.outPlane()) * taps / float64(phases)
	t[transposed] = blocks * float64(s.frames*s.inPlane()+s.results*s.outPlane())
	t[strips] = blocks * float64(s.strips)
	t[calls] = t[strips] * float64(s.results*called)
	return t
}
