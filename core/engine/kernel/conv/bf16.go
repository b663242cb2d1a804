package conv

import (
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/direct"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/geometry"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/tiled"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/winograd"
)

// Convolutions of bfloat16 images, with float32 sums. With AMX, tiles multiply most of them. Without, layers of at least 16
// channels go through Winograd where that saves products, in float32, with tiles that float32
// results could not afford; others multiply pairs of bfloat16, as do filters of 1×1, which Winograd saves no products.

// howBF16 is how a direction is computed.
type howBF16 int

const (
	byWidening howBF16 = iota + 1 // as float32, which callers do for many images at a time
	byTiles
	byWinograd
	byPairs
)

// chooseBF16 says how a direction is computed, for all images of the batch alike.
func chooseBF16(p *Shape, d Direction) howBF16 {
	if onlyTiles && tiled.Takes(p) {
		return byTiles
	}
	if kernel.HasTiles() {
		return tileChoices.OfBatch(p, manyImages, d, func(p *Shape) howBF16 { return cheapestBF16(p, d) })
	}
	switch pairs := takesPairs(p, d); {
	case winograd.TakesBF16(p) && !(pairs && pairsOverWinograd.OfBatch(p, manyImages, d, func(p *Shape) bool { return pairsBeatWinograd(p, d) })):
		return byWinograd
	case pairs:
		return byPairs
	}
	return byWidening
}

// pairsOverWinograd is what pairsBeatWinograd says of a shape.
var pairsOverWinograd geometry.Memo[bool]

// pairsBeatWinograd reports whether pairs take less time than Winograd's tiles in float32: for filters of 1×1, which save no products, and some of one row
// or column, which save few.
func pairsBeatWinograd(p *Shape, d Direction) bool {
	if !winograd.IsLine(p) {
		return p.R*p.S == 1
	}
	pairs, tiles := direct.PairTerms(p, d), winograd.TermsBF16(p, d)
	return direct.PairRates.Cycles(&pairs) < winograd.Rates.Cycles(&tiles)
}

// onlyTiles is for tests: what tiles can compute, they do.
var onlyTiles bool

// tileChoices is what cheapestBF16 says of a shape.
var tileChoices geometry.Memo[howBF16]

// cheapestBF16 compares the cycles of what a CPU with AMX can do. Such CPUs take as long for a product of pairs as for four of float32.
func cheapestBF16(p *Shape, d Direction) howBF16 {
	how, least := byWidening, costOf(p, Choose(p, d), d)+wideningCost(p)
	if winograd.TakesBF16(p) {
		t := winograd.TermsBF16(p, d)
		if c := winograd.Rates.Cycles(&t); c < least || !winograd.IsLine(p) {
			how, least = byWinograd, c
		}
	}
	if tiled.Takes(p) {
		if t := tiled.Terms(p, d); tiled.Rates.Cycles(&t) < least {
			how = byTiles
		}
	}
	return how
}

// wideningCost is the cycles of widening and rounding all elements.
func wideningCost(p *Shape) float64 {
	const widening = 0.2 // of an element
	return widening * float64(p.N*(p.C*p.H*p.W+p.K*p.OutH()*p.OutW()))
}

// takesPairs reports whether pairs of bfloat16 can compute a direction at the active level.
func takesPairs(p *Shape, d Direction) bool {
	switch d {
	case ToOutput:
		return direct.TakesBF16(p, p.C, p.K)
	case ToInput:
		return direct.TakesBF16(p, p.K, p.C)
	}
	return direct.TakesWeightBF16(p)
}

// TakesBF16 reports whether a direction of images of bfloat16 has a vector kernel for this geometry at the active level.
func TakesBF16(p *Shape, d Direction) bool {
	return tiled.Takes(p) || winograd.TakesBF16(p) || takesPairs(p, d)
}

// FastBF16 reports whether that kernel takes less time than widening images to float32 and computing with those. Otherwise callers widen.
// The answer is that for all images of the batch.
func FastBF16(p *Shape, d Direction) bool {
	how := chooseBF16(p, d)
	if how == byPairs {
		return fastPairs.OfBatch(p, manyImages, d, func(p *Shape) bool { return pairsPay(p, d) })
	}
	return how != byWidening
}

// fastPairs is what pairsPay says of a shape.
var fastPairs geometry.Memo[bool]

// pairsPay compares the cycles of pairs of bfloat16 with those of float32, and of widening and rounding.
func pairsPay(p *Shape, d Direction) bool {
	t := direct.PairTerms(p, d)
	return direct.PairRates.Cycles(&t) < costOf(p, Choose(p, d), d)+wideningCost(p)
}

// BF16Scratch is the number of scratch elements that each of the kernels needs.
func BF16Scratch(p *Shape) int {
	n := 0
	for _, d := range []Direction{ToOutput, ToInput, ToWeight} {
		n = max(n, bf16Scratch(p, d))
	}
	return n
}

func bf16Scratch(p *Shape, d Direction) int {
	switch chooseBF16(p, d) {
	case byTiles:
		return tiled.DirectionScratch(p, d)
	case byWinograd:
		return winograd.Scratch[uint16](p)
	case byPairs:
		if d == ToWeight {
			return direct.BF16WeightScratch(p)
		}
		return direct.BF16Scratch(p)
	}
	return widenedScratch(p)
}

// ForwardBF16 computes y = conv(x, w) + bias, rounded once; bias may be nil.
func ForwardBF16(p *Shape, x, w []uint16, bias []float32, y []uint16, scratch []float32) {
	switch chooseBF16(p, ToOutput) {
	case byTiles:
		tiled.Forward(p, x, w, bias, y, scratch)
	case byWinograd:
		winograd.Forward(p, x, Filters[uint16]{Own: w}, bias, y, scratch)
	case byPairs:
		direct.ForwardBF16(p, x, w, bias, y, scratch)
	default:
		widenedForward(p, x, w, bias, y, scratch)
	}
}

// GradInputBF16 computes the gradient with respect to x from dy and w, and
// overwrites dx, rounded once.
func GradInputBF16(p *Shape, dy, w, dx []uint16, scratch []float32) {
	switch chooseBF16(p, ToInput) {
	case byTiles:
		tiled.GradInput(p, dy, w, dx, scratch)
	case byWinograd:
		winograd.GradInput(p, dy, Filters[uint16]{Own: w}, dx, scratch)
	case byPairs:
		direct.GradInputBF16(p, dy, w, dx, scratch)
	default:
		widenedGradInput(p, dy, w, dx, scratch)
	}
}

// GradWeightBF16 computes the gradient with respect to w from x and dy, and
// writes or adds it to dw, unrounded.
func GradWeightBF16(p *Shape, x, dy []uint16, dw, scratch []float32, accumulate bool) {
	switch chooseBF16(p, ToWeight) {
	case byTiles:
		tiled.GradWeight(p, x, dy, dw, scratch, accumulate)
	case byWinograd:
		winograd.GradWeight(p, x, dy, dw, scratch, accumulate)
	case byPairs:
		direct.GradWeightBF16(p, x, dy, dw, scratch, accumulate)
	default:
		widenedGradWeight(p, x, dy, dw, scratch, accumulate)
	}
}
