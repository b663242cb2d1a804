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
	pairs                        // the same as products, of two outputs of a channel at once
	pairDots                     // of weight gradients
	transposed                   // vectors of one pixel that planes are copied to or from
	strips                       // of a block of planes
	calls                        // of the kernels that sum, or phases of one
)

// Rates is the cycles of each.
var Rates = cost.Rates{
	kernel.AVX2:   {products: 0.655, dots: 0.539, pairs: 0.534, pairDots: 0.382, transposed: 2.34, strips: 86.6, calls: 46.7},
	kernel.AVX512: {products: 0.842, dots: 0.895, pairs: 0.458, pairDots: 0.602, transposed: 3.91, strips: 104, calls: 44.6},
}

// Terms counts what a direction of p does. See package cost.
func Terms(p *geometry.Shape, d geometry.Direction) (t cost.Terms) {
	s := newPlanes(p, d)
	blocks, taps := float64(p.N*p.C)/float64(s.lanes), float64(s.all())
	phases := s.row.stride * s.column.stride
	alone, two := products, pairs
	called := kernel.CeilDiv(s.results, s.together()) * phases
	if d == geometry.ToWeight {
		alone, two = dots, pairDots
		called = s.results/2*dotsCalls(s.taps(), 2) + s.results%2*dotsCalls(s.taps(), 1)
	}
	work := blocks * float64(s.outPlane()) * taps / float64(phases)
	t[alone] = work * float64(s.results%2) / float64(s.results)
	t[two] = work - t[alone]
	t[transposed] = blocks * float64(s.frames*s.inPlane()+s.results*s.outPlane())
	t[strips] = blocks * float64(s.strips)
	t[calls] = t[strips] * float64(called)
	return t
}
