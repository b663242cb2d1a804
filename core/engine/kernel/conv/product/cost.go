package product

import (
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/cost"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/geometry"
)

// What the algorithm does beside tiles.
const (
	gatheredRows  = cost.Own + iota // rows that are gathered for a tap
	gatheredElems                   // elements of these
	passedElems                     // elements of the input that these leave out
	packedWeights                   // weights, or rows of a product
	packedPixels                    // vectors of pixels that are copied to panels
	deepVectors                     // of images that are copied side by side
	matrices                        // calls of Gemm
	partRows                        // rows of pixels of one group of several
	scattered                       // vectors of planes that lie in many pages
	streamed                        // vectors that come from memory, from more planes in turn than a core prefetches
	pairedRows                      // rows of which vectors take even and odd elements apart
	pairedVectors                   // pairs of vectors of these
)

// How many planes a core prefetches at a time, and the elements that its share of the last cache keeps.
const (
	prefetched = 32
	cached     = 14 << 20 / 4
)

// Rates is the cycles of each.
var Rates = cost.Rates{
	kernel.AVX2:   {cost.Steps: 1.04, cost.Calls: 25.4, gatheredRows: 8.61, gatheredElems: 1.78, passedElems: 0.426, packedWeights: 0.379, packedPixels: 2.14, deepVectors: 2.72, matrices: 753, partRows: 1.9, scattered: 1.27, streamed: 11.3, pairedRows: 6.73},
	kernel.AVX512: {cost.Steps: 1.05, cost.Calls: 98.3, gatheredRows: 10, gatheredElems: 1.41, passedElems: 0.449, packedWeights: 0.146, packedPixels: 3.91, deepVectors: 6.15, matrices: 2.83e+03, partRows: 0.837, scattered: 0.0292, streamed: 11.6, pairedRows: 6.52},
}

// Terms counts what a direction of p does. See package cost.
func Terms(p *geometry.Shape, d geometry.Direction) (t cost.Terms) {
	m, g, kg, lanes := newPatches(p, d), p.GroupCount(), p.K/p.GroupCount(), kernel.Lanes()
	switch {
	case m.inPlace:
	case m.vectors():
		t[pairedRows] = float64(p.N * p.C * p.R * p.OutH() * max(1, p.S-1))
		t[pairedVectors] = float64(p.N*m.image()*max(1, p.S/2)) / (4 * narrow)
	default:
		t[gatheredRows] = float64(p.N * p.C * p.R * p.S * p.OutH())
		t[gatheredElems] = float64(p.N * m.image())
		t[passedElems] = float64(max(0, p.N*(p.C*p.H*p.W-m.image())))
	}
	groups := float64(g)
	in, out := m.rows, kg
	if d == geometry.ToInput {
		in, out = out, in
	}
	switch {
	case m.pixels == 1:
		rows, columns, depth := p.N, out, in
		if d == geometry.ToWeight {
			rows, columns, depth = kg, m.rows, p.N
		}
		t.Add(cost.Product(kernel.CeilDiv(rows, lanes), depth, columns).Times(groups))
		t[packedWeights] += groups * float64(rows*depth)
		t[matrices] += groups
	case d != geometry.ToWeight:
		lanes = tileLanes(in, out, m.pixels)
		vectors := p.N * kernel.CeilDiv(m.pixels, lanes)
		t.Add(cost.TilesOf(lanes, vectors, in, out).Times(groups))
		t[packedWeights] += float64(kernel.CeilDiv(p.N, m.batch)) * groups * float64(in*out)
		if packsPixels(in, out, m.pixels) {
			t[packedPixels] += groups * float64(vectors*in)
			break
		}
		if g > 1 {
			t[partRows] += groups * float64(vectors*(in+out))
		}
		if cost.Scatters(in, m.pixels, out, m.pixels) {
			t[scattered] += groups * float64(vectors*(in+out))
		}
		if in > prefetched && p.N*g*in*m.pixels > cached {
			t[streamed] += groups * float64(vectors*in)
		}
	default:
		deep := m.deep()
		calls := groups * float64(p.N) / float64(deep.images)
		n := deep.images * m.pixels
		if deep.images > 1 {
			copied := out
			if m.inPlace {
				copied += in
			}
			t[deepVectors] += groups * float64(p.N*copied*kernel.CeilDiv(m.pixels, lanes))
		}
		if m.packsInputs(kg) {
			kg, m.rows = m.rows, kg
		}
		t.Add(cost.Product(kernel.CeilDiv(kg, lanes), n, m.rows).Times(calls))
		t[packedWeights] += calls * float64(kg*n)
		t[matrices] += calls
	}
	return t
}
