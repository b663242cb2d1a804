package interleaved

import (
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/cost"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/geometry"
)

// What convolutions of interleaved planes do.
const (
	products   = cost.Own + iota // of vectors
	pairs                        // the same, of two outputs of a channel at once
	dots                         // the same, of weight gradients
	pairDots                     // of weight gradients of two outputs of a channel at once
	sums                         // vectors of results that products are added to, in each part
	transposed                   // vectors of one pixel that planes are copied to or from
	strips                       // of a block of planes
	calls                        // parts that these are summed in
	dotCalls                     // of the kernels of weight gradients
	kept                         // vectors of frames that move from one strip to the next, where the L1 cache does not hold them
)

// Rates is the cycles of each.
var Rates = cost.Rates{
	kernel.AVX2:     {products: 0.5, pairs: 0.5, dots: 0.538, pairDots: 0.449, sums: 0.6, transposed: 2.2, strips: 62, calls: 15, dotCalls: 51.5, kept: 0.9},
	cost.HalvedAVX2: {products: 1.6, pairs: 1.37, dots: 1.65, pairDots: 1.28, sums: 1.93, transposed: 5.73, strips: 186, calls: 55, dotCalls: 102, kept: 1.5},
	kernel.AVX512:   {products: 0.89, pairs: 0.58, dots: 0.96, pairDots: 0.7, sums: 0.15, transposed: 4.15, strips: 200, calls: 15, dotCalls: 66, kept: 1.7},
}

// Terms counts what a direction of p does. See package cost.
func Terms(p *geometry.Shape, d geometry.Direction) (t cost.Terms) {
	s := newPlanes(p, d)
	blocks, taps := float64(p.N*p.C)/float64(s.lanes), float64(s.all())
	phases := s.row.stride * s.column.stride
	t[transposed] = blocks * float64(s.frames*s.inPlane()+s.results*s.outPlane())
	if s.collide() { // results are copied twice
		t[transposed] += blocks * float64(s.results*s.outPlane()) / 3
	}
	t[strips] = blocks * float64(s.strips)
	if frame := s.frames * s.width * s.rows; frame*s.lanes > stripElems { // taps lie so far apart that one row sees more
		moved := frame - s.frames*s.width*s.strip/s.row.stride*s.row.every
		t[kept] = blocks * float64((s.strips-1)*max(0, moved))
	}
	if work := blocks * float64(s.outPlane()) * taps / float64(phases); d == geometry.ToWeight {
		t[dotCalls] = t[strips] * float64(s.results/2*dotsCalls(s.taps(), 2)+s.results%2*dotsCalls(s.taps(), 1))
		t[dots] = work * float64(s.results%2) / float64(s.results)
		t[pairDots] = work - t[dots]
	} else {
		parts := kernel.CeilDiv(s.all()/s.results, phases*mostTaps)
		t[calls] = t[strips] * float64(s.results*phases*parts)
		t[products], t[sums] = work, blocks*float64(s.outPlane()*s.results*parts)
		if s.together() > 1 {
			t[products] = work * float64(s.results%2) / float64(s.results)
			t[pairs] = work - t[products]
		}
	}
	return t
}
