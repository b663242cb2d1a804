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
	kernel.AVX2:   {products: 0.676, dots: 0.538, pairs: 0.544, pairDots: 0.449, transposed: 2.51, strips: 62, calls: 51.5},
	kernel.AVX512: {products: 0.938, dots: 0.928, pairs: 0.725, pairDots: 0.797, transposed: 4.15, strips: 34.1, calls: 47.1},
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
