package product

import (
	"math"

	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/cost"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/geometry"
)

// What the algorithm does beside tiles.
const (
	tapBlocks     = cost.Own + iota // blocks of rows that are gathered for the taps of a row
	tapPicks                        // vectors that lanes of these are picked from, for each tap
	packedWeights                   // weights, or rows of a product
	packedPixels                    // vectors of pixels that are copied to panels
	deepVectors                     // of images that are copied side by side
	matrices                        // calls of Gemm
	partRows                        // rows of pixels of one group of several
	scattered                       // vectors of planes that lie in many pages
	streamed                        // vectors that come from memory, from more planes in turn than a core prefetches
	pairedRows                      // rows of which vectors take even and odd elements apart
	pairedVectors                   // pairs of vectors of these
	panels                          // pairs of vectors of pixels, for which tiles follow each other
	shortSums                       // vectors of sums of few products, by how many they fall short: they wait for being written
	runs                            // products of a batch and group, before which weights are packed
)

// How many planes a core prefetches at a time, the elements that its share of the last cache keeps, and the products
// that take as long as writing their sum.
const (
	prefetched = 32
	cached     = 14 << 20 / 4
	hidesStore = 12
)

// Rates is the cycles of each.
var Rates = cost.Rates{
	kernel.AVX2:   {cost.Steps: 0.966, cost.Calls: 8.05, tapBlocks: 0.598, tapPicks: 2.35, packedWeights: 0.245, packedPixels: 2.37, deepVectors: 2.1, matrices: 640, partRows: 0.985, scattered: 0.525, streamed: 0.777, pairedRows: 3.46, pairedVectors: 5.72, panels: 20.7, shortSums: 0.734, runs: 391},
	kernel.AVX512: {cost.Steps: 0.943, cost.Calls: 45.3, cost.Stores: 0.18, tapBlocks: 6.9, tapPicks: 2.42, packedWeights: 0.263, packedPixels: 3.11, deepVectors: 3.3, matrices: 562, partRows: 0.856, scattered: 0.17, streamed: 5.67, pairedRows: 2.87, pairedVectors: 9.65, shortSums: 0.508, runs: 343},
}

// Terms counts what a direction of p does. See package cost.
func Terms(p *geometry.Shape, d geometry.Direction) (t cost.Terms) {
	m, g, kg, lanes := newPatches(p, d), p.GroupCount(), p.K/p.GroupCount(), kernel.Lanes()
	switch {
	case m.inPlace:
	case m.pixels == 1:
		t[tapBlocks] = float64(p.N * p.C * p.R * kernel.CeilDiv(p.S, narrow))
	case m.pairs():
		t[pairedRows] = float64(p.N * p.C * p.R * p.OutH() * max(1, p.S-1))
		t[pairedVectors] = float64(p.N*m.image()*max(1, p.S/2)) / (4 * narrow)
	default:
		blocks, picks := m.taps.Picks()
		t[tapBlocks], t[tapPicks] = float64(p.N*p.C*blocks), float64(p.N*p.C*picks)
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
		t.Add(m.rowsTerms(in, out))
	default:
		deep := m.deep()
		calls := groups * float64(p.N) / float64(deep.images)
		n := deep.images * m.pixels
		if deep.images > 1 {
			copied := out
			if m.inPlace {
				copied += in
			}
			t[deepVectors] += groups * float64(p.N*copied*kernel.CeilDiv(m.pixels, lanes)) * m.shareOfCopy()
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

// rowsTerms counts what products of out rows from in rows do, of all groups and images.
func (m *patches) rowsTerms(in, out int) (t cost.Terms) {
	p, groups := m.p, float64(m.p.GroupCount())
	images, batches := m.together.images, groups*float64(p.N)/float64(m.batch)
	tiles, n := m.tileTerms(images, in, out)
	vectors := batches * float64(n)
	t.Add(tiles.Times(batches))
	t[panels], t[runs] = vectors/2, math.Ceil(float64(p.N)/float64(m.batch))*groups
	t[shortSums] = vectors * float64(out*max(0, hidesStore-in)) / hidesStore
	t[packedWeights] += float64(kernel.CeilDiv(p.N, m.batch)) * groups * float64(in*out)
	t[deepVectors] = batches * float64(m.copiedVectors(images, in, out)) * m.shareOfCopy()
	if packsPixels(in, out, images*m.pixels) {
		t[packedPixels] += vectors * float64(in)
		return t
	}
	if images > 1 {
		return t
	}
	if groups > 1 {
		t[partRows] += vectors * float64(in+out)
	}
	if cost.Scatters(in, m.pixels, out, m.pixels) {
		t[scattered] += vectors * float64(in+out)
	}
	if in > prefetched && p.N*p.GroupCount()*in*m.pixels > cached {
		t[streamed] += vectors * float64(in)
	}
	return t
}
