package cost

import (
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/gemm"
)

// Terms is how often an algorithm does what takes time: what the tiles of the micro-kernel take, which most
// algorithms share, and from Own on what the algorithm's package names.
type Terms [40]float64

// The terms that are shared.
const (
	Steps  = iota // cycles of the multiply-adds of tiles, as the core could issue them
	Calls         // of a micro-kernel
	Stores        // vectors of a tile's sums that are written
	Copied        // elements behind all caches, for algorithms that copy images: see FarCopies
	Own
)

// FarWeights is so many that what an algorithm reorders is read and written far from the core.
const FarWeights = 1 << 19

// Where so many elements lie that are read and written again and again: algorithms copy, prefetch and are chosen by these limits. They are
// those of the cores that have been measured, of which each had an L2 cache of 0.5 to 2 MiB and a share of some MiB of the last one.
const (
	CachedElems = 1 << 18 // no more stay in the L2 cache of a core
	SharedElems = 1 << 20 // no more stay in the last cache while other programs use it, too
	FarElems    = 1 << 22 // so many of both sides are in memory behind all caches
)

// Add adds the terms of another part of the work.
func (t *Terms) Add(u Terms) {
	for i, n := range u {
		t[i] += n
	}
}

// Times is n times as much work.
func (t Terms) Times(n float64) Terms {
	for i := range t {
		t[i] *= n
	}
	return t
}

// Rates is the cycles of each term, by level, and HalvedAVX2.
type Rates [HalvedAVX2 + 1]Terms

// HalvedAVX2 is AVX2 on a CPU that computes its vectors in halves: products take twice as long there, so that the rest counts
// less, and masked loads much longer.
const HalvedAVX2 = kernel.AVX512 + 1

// Cycles is what the terms take at the active level. Nothing has been timed on arm64, whose tiles are
// those of AVX2. What only AVX-512 does has no rates of AVX2.
func (r *Rates) Cycles(t *Terms) (c float64) {
	level := kernel.Current()
	switch {
	case level == kernel.AVX2 && kernel.Halves():
		level = HalvedAVX2
	case level != kernel.AVX512:
		level = kernel.AVX2
	}
	for i, n := range t {
		c += n * r[level][i]
	}
	return c
}

// FMAs is the cycles of n multiply-adds of vectors.
func FMAs(n float64) float64 { return FMAsOf(kernel.Lanes(), n) }

// FMAsOf is FMAs for vectors of so many lanes: a core issues two at a time.
func FMAsOf(lanes int, n float64) float64 {
	if lanes == kernel.Lanes() && kernel.Halves() {
		return n
	}
	return n / 2
}

// tileStep is the cycles of a tile of the micro-kernel for one product of each sum: a
// load of each vector, a broadcast for each row, and sums that wait for those before.
func tileStep(lanes, rows int) float64 {
	return max(FMAsOf(lanes, float64(2*rows)), float64(rows+3)/2, 4)
}

// Tiles is out rows of vectors, of in products each.
func Tiles(vectors, in, out int) Terms { return TilesOf(kernel.Lanes(), vectors, in, out) }

// TilesOf is Tiles for vectors of so many lanes.
func TilesOf(lanes, vectors, in, out int) (t Terms) {
	height, blocks := gemm.EvenRows(out, gemm.TileOf(lanes).Rows), kernel.CeilDiv(in, gemm.BlockK)
	panels := float64(out) / float64(height)
	pairs := float64(kernel.CeilDiv(vectors, 2))
	t[Steps] = pairs * panels * tileStep(lanes, height) * float64(in)
	t[Calls] = pairs * float64(kernel.CeilDiv(out, height)*blocks)
	t[Stores] = float64(vectors * out * blocks)
	return t
}

// Product is Tiles as Gemm computes them, which takes the last of an odd number of vectors alone.
func Product(vectors, in, out int) Terms {
	t := Tiles(vectors, in, out)
	if vectors%2 > 0 {
		height := gemm.EvenRows(out, gemm.TileShapes[kernel.Current()].Rows)
		spared := tileStep(kernel.Lanes(), height) - max(FMAs(float64(height)), float64(height+2)/2, 4)
		t[Steps] -= spared * float64(out) / float64(height) * float64(in)
	}
	return t
}

// TileLanes is the lanes of the vectors with which tiles take less time: those of the active level, of which there are
// so many wide, or eight, of which there are so many narrow.
func TileLanes(wide, narrow, in, out int) int {
	const eight, call = 8, 40
	lanes := kernel.Lanes()
	if lanes == eight {
		return lanes
	}
	w, n := TilesOf(lanes, wide, in, out), TilesOf(eight, narrow, in, out)
	if n[Steps]+call*n[Calls] < w[Steps]+call*w[Calls] {
		return eight
	}
	return lanes
}

// FarCopies is the elements of both sides of a convolution if they lie behind all caches and filters have so few taps that their products do not hide what
// it takes to copy images and results. That is so for one tap, of which a product of matrices reads images as they lie.
func FarCopies(elems, taps int) float64 {
	if taps > 1 || elems < FarElems {
		return 0
	}
	return float64(elems)
}

// Scatters reports whether so many planes, and others, lie in more pages than the core keeps the addresses of: tiles
// that go from plane to plane then wait for each.
func Scatters(planes, pixels, others, otherPixels int) bool {
	const page, kept = 4096 / 4, 64
	return planes*min(pixels, page)+others*min(otherPixels, page) > kept*page
}
