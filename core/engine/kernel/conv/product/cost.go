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
	deepSums                        // vectors of sums that those of few pixels read and write
	partRows                        // rows of pixels of one group of several
	scattered                       // vectors of planes that lie in many pages
	streamed                        // vectors that come from memory, from more planes in turn than a core prefetches
	pickedBlocks                    // blocks of rows of which a single tap sees elements: vectors of pixels
	spreadVectors                   // vectors of images that a single tap sees elements of, with the zeros between them
	pairedRows                      // rows of which vectors take even and odd elements apart
	pairedVectors                   // pairs of vectors of these
	panels                          // pairs of vectors of pixels, for which tiles follow each other
	shortSums                       // vectors of sums of few products, by how many they fall short: they wait for being written
	shortBeside                     // of these, where a call takes the pixels beside each other
	runs                            // products of a batch and group, before which weights are packed
	keptSteps                       // cycles of the multiply-adds of gradients of few weights, as the core could issue them
	keptVectors                     // vectors of dy and of x that these read
	keptFar                         // of these, where they do not stay in the last cache
	keptRows                        // rows of tiles
	keptCalls                       // calls of their micro-kernel
	keptSums                        // vectors of sums
	squares                         // of taps and pixels that windows turn, of whole vectors
	frameRows                       // rows that they copy to frames
	pixelRuns                       // runs of elements of patches that are copied
	pixelVectors                    // moves of these beside the first
	pixelRows                       // rows of runs
	pixelFar                        // lines of images that these come from, or go to, far away
	pixelSums                       // vectors of sums of their products that are written
	pixelStrips                     // calls of the micro-kernel for a pair of vectors of taps
	pixelProducts                   // calls of Gemm
)

// How many planes a core prefetches at a time, the elements that its share of the last cache keeps, the products
// that take as long as writing their sum, and the outputs whose products take as long as memory.
const (
	prefetched  = 32
	cached      = 14 << 20 / 4
	hidesStore  = 12
	hidesMemory = 96
)

// Rates is the cycles of each.
var Rates = cost.Rates{
	kernel.AVX2:     {cost.Steps: 0.984, cost.Stores: 0.137, tapPicks: 2.77, packedWeights: 0.111, packedPixels: 4.02, deepVectors: 2.14, matrices: 1.02e+03, deepSums: 1, partRows: 0.184, scattered: 0.365, pickedBlocks: 5, spreadVectors: 1.6, pairedRows: 1.97, pairedVectors: 13.2, panels: 100, shortSums: 1.21, shortBeside: 1.3, runs: 315, keptSteps: 0.614, keptVectors: 0.5, keptRows: 2.22, keptCalls: 285, keptSums: 4.87, squares: 14, frameRows: 10, streamed: 8, pixelRuns: .47, pixelRows: 1.09, pixelVectors: 0.69, pixelFar: 3.43, pixelSums: 1.5, pixelStrips: 166, pixelProducts: 449},
	cost.HalvedAVX2: {cost.Steps: 1.18, cost.Calls: 0.499, cost.Stores: 3.22, tapBlocks: 9.34, tapPicks: 4.91, packedWeights: 0.353, packedPixels: 9.92, deepVectors: 7.36, matrices: 1.5e+03, deepSums: 2, partRows: 0.3, scattered: 0.5, streamed: 8, pickedBlocks: 8, spreadVectors: 5.73, pairedRows: 7.09, pairedVectors: 116, panels: 247, shortSums: 7.36, shortBeside: 7.91, runs: 400, keptSteps: 0.91, keptVectors: 1.85, keptFar: 3.07, keptRows: 19, keptCalls: 335, keptSums: 6, squares: 11, frameRows: 34.7, pixelRuns: 0.94, pixelRows: 2.5, pixelVectors: 1.4, pixelFar: 5, pixelSums: 2, pixelStrips: 300, pixelProducts: 800},
	kernel.AVX512:   {cost.Steps: 0.994, cost.Calls: 17.2, cost.Stores: 0.12, tapBlocks: 12.7, tapPicks: 1.46, packedWeights: 0.264, packedPixels: 4.12, deepVectors: 3.43, deepSums: 1.5, partRows: 0.5, scattered: 1.22, pickedBlocks: 6, spreadVectors: 3, pairedRows: 1.12, pairedVectors: 17, panels: 108, shortSums: 2.25, shortBeside: 1.9, runs: 86.9, keptSteps: 0.133, keptVectors: 1.38, keptFar: 0.132, keptRows: 12.2, keptCalls: 615, keptSums: 8.03, squares: 16, frameRows: 10, streamed: 3, pixelRuns: .6, pixelRows: .78, pixelVectors: .6, pixelFar: 3.03, pixelSums: 2.05, pixelStrips: 250, pixelProducts: 428},
}

// Terms counts what a direction of p does. See package cost.
func Terms(p *geometry.Shape, d geometry.Direction) cost.Terms {
	if takesPixels(p, d) {
		b := newByPixel(p, d)
		return b.terms(d)
	}
	return termsByTap(p, d)
}

// termsByTap is Terms where matrices have a row for every tap.
func termsByTap(p *geometry.Shape, d geometry.Direction) (t cost.Terms) {
	m, g, kg, lanes := newPatches(p, d), p.GroupCount(), p.K/p.GroupCount(), kernel.Lanes()
	switch {
	case m.inPlace:
	case m.turned:
		n, rows := m.windows.Copies(p.N)
		t[squares], t[frameRows] = float64(n), float64(rows)
	case m.pixels == 1:
		t[tapBlocks] = float64(p.N * p.C * p.R * kernel.CeilDiv(p.S, narrow))
	case m.pairs():
		t[pairedRows] = float64(p.N * p.C * p.R * p.OutH() * max(1, p.S-1))
		t[pairedVectors] = float64(p.N*m.rows*g*m.pixels*max(1, p.S/2)) / (4 * narrow)
		if m.back && lanes == kernel.Block {
			t[pairedVectors] *= 1.8 // halves of wide vectors are put together and written
		}
	case m.taps.Single() && m.back:
		t[spreadVectors] = float64(p.N*p.C*p.H*p.W/lanes) * farTimes(p, p.H, 4)
	case m.taps.Single():
		blocks, _ := m.taps.Picks()
		t[pickedBlocks] = float64(p.N*p.C*blocks) * farTimes(p, p.OutH(), 5)
	default:
		blocks, picks := m.taps.Picks()
		t[tapBlocks], t[tapPicks] = float64(p.N*p.C*blocks), float64(p.N*p.C*picks)
	}
	groups := float64(g)
	in, out := m.partRows(), kg
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
	case takesDots(p):
		m = patchesOf(p, d, p.C)
		d := newDotted(&m, kg)
		t.Add(d.terms())
	default:
		t.Add(m.deepTerms(kg))
	}
	return t
}

// farTimes is times, which is how many times as long it takes to pick or spread pixels of so many rows of each plane, with a stride above
// two and behind all caches, or else 1. Algorithms are chosen for few images of batches that may have twice as many. It has been measured with eight lanes.
func farTimes(p *geometry.Shape, rows int, times float64) float64 {
	const many = 32
	images := p.N
	if images >= many {
		images *= 2
	}
	if p.StrideW <= 2 || kernel.Lanes() == kernel.Block || kernel.Halves() || images*p.C*rows*p.W <= cost.SharedElems {
		return 1
	}
	return times
}

// deepTerms counts what weight gradients by matrix products do beside copies of patches.
func (m *patches) deepTerms(kg int) (t cost.Terms) {
	groups, lanes, deep := float64(m.p.GroupCount()), kernel.Lanes(), m.deep(kg)
	calls := groups * float64(m.p.N) / float64(deep.images) * m.parts()
	n := deep.images * m.pixels
	if deep.images > 1 {
		copied := kg
		if m.inPlace {
			copied += m.rows
		}
		t[deepVectors] = groups * float64(m.p.N*copied*kernel.CeilDiv(m.pixels, lanes)) * m.shareOfCopy()
	}
	packed, other := kg, m.partRows()
	if other < kg { // Gemm packs the fewer rows
		packed, other = other, packed
	}
	t.Add(cost.Product(kernel.CeilDiv(packed, lanes), n, other).Times(calls))
	t[packedWeights] = calls * float64(packed*n)
	t[matrices] = calls
	if n < deepPixels && deep.images == 1 {
		t[deepSums] = calls * float64(other*kernel.CeilDiv(packed, lanes))
	}
	return t
}

// rowsTerms counts what products of out rows from in rows do, of all groups and images.
func (m *patches) rowsTerms(in, out int) (t cost.Terms) {
	p, groups := m.p, float64(m.p.GroupCount())
	images, batches := m.together.images, groups*float64(p.N)/float64(m.batch)
	tiles, n := m.tileTerms(images, in, out)
	passes := batches * m.parts()
	plan, vectors := m.plan(images, in, out), passes*float64(n)
	t.Add(tiles.Times(passes))
	t[runs] = math.Ceil(float64(p.N)/float64(m.batch)) * groups * m.parts()
	if short := vectors * float64(out*max(0, hidesStore-in)) / hidesStore; plan.beside() {
		if t[shortBeside] = short; in > hidesStore {
			t[panels] = vectors / 4 // several follow each other in a call
		}
	} else {
		t[panels], t[shortSums] = vectors/2, short
	}
	t[packedWeights] += float64(m.rows * p.K)
	t[deepVectors] = batches * float64(m.copiedVectors(images, in, out)) * m.shareOfCopy()
	if plan.packs() {
		t[packedPixels] += vectors * float64(in)
		return t
	}
	if images > 1 {
		return t
	}
	if groups > 1 {
		t[partRows] += vectors * float64(in+out)
	}
	if !plan.beside() && cost.Scatters(in, m.pixels, out, m.pixels) {
		t[scattered] += vectors * float64(in+out)
	}
	if in > prefetched && out < hidesMemory && p.N*p.GroupCount()*in*m.pixels > cached {
		t[streamed] += vectors * float64(in)
	}
	return t
}
