package conv

import (
	"github.com/trainctl/trainctl/core/engine/kernel/conv/direct"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/geometry"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/tiled"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/winograd"
)

// Convolutions of bfloat16 images, with float32 sums. Layers of at least 16
// channels go through Winograd where that saves products, in float32, with tiles that float32
// results could not afford; others multiply pairs of bfloat16, as do filters of 1×1, which Winograd saves no products.

// winogradBF16 reports whether Winograd computes a direction, which pairs of bfloat16 could compute, too, or not.
func winogradBF16(p *Shape, pairs bool) bool {
	return winograd.TakesBF16(p) && !(pairs && p.R*p.S == 1)
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
	return tiled.Takes(p) || winograd.TakesBF16(p) || takesPairs(p, d) && fastPairs.OfBatch(p, manyImages, d, func(p *Shape) bool { return pairsPay(p, d) })
}

// fastPairs is what pairsPay says of a shape.
var fastPairs geometry.Memo[bool]

// pairsPay compares the cycles of pairs of bfloat16 with those of float32, and of widening and rounding.
func pairsPay(p *Shape, d Direction) bool {
	const widening = 0.2 // cycles of an element
	t := direct.PairTerms(p, d)
	elems := p.N * (p.C*p.H*p.W + p.K*p.OutH()*p.OutW())
	return direct.PairRates.Cycles(&t) < costOf(p, Choose(p, d), d)+widening*float64(elems)
}

// BF16Scratch is the number of scratch elements that each of the kernels needs.
func BF16Scratch(p *Shape) int {
	if tiled.Takes(p) {
		return max(tiled.DirectionScratch(p, ToOutput), tiled.DirectionScratch(p, ToInput), tiled.DirectionScratch(p, ToWeight))
	}
	n := 0
	if winograd.TakesBF16(p) {
		n = winograd.Scratch[uint16](p)
		if p.R*p.S > 1 {
			return n
		}
	}
	n = max(n, direct.BF16Scratch(p), direct.BF16WeightScratch(p))
	if !TakesBF16(p, ToOutput) || !TakesBF16(p, ToInput) || !TakesBF16(p, ToWeight) {
		n = max(n, widenedScratch(p))
	}
	return n
}

// ForwardBF16 computes y = conv(x, w) + bias, rounded once; bias may be nil.
func ForwardBF16(p *Shape, x, w []uint16, bias []float32, y []uint16, scratch []float32) {
	switch {
	case tiled.Takes(p):
		tiled.Forward(p, x, w, bias, y, scratch)
	case winogradBF16(p, takesPairs(p, ToOutput)):
		winograd.Forward(p, x, Filters[uint16]{Own: w}, bias, y, scratch)
	case takesPairs(p, ToOutput):
		direct.ForwardBF16(p, x, w, bias, y, scratch)
	default:
		widenedForward(p, x, w, bias, y, scratch)
	}
}

// GradInputBF16 computes the gradient with respect to x from dy and w, and
// overwrites dx, rounded once.
func GradInputBF16(p *Shape, dy, w, dx []uint16, scratch []float32) {
	switch {
	case tiled.Takes(p):
		tiled.GradInput(p, dy, w, dx, scratch)
	case winogradBF16(p, takesPairs(p, ToInput)):
		winograd.GradInput(p, dy, Filters[uint16]{Own: w}, dx, scratch)
	case takesPairs(p, ToInput):
		direct.GradInputBF16(p, dy, w, dx, scratch)
	default:
		widenedGradInput(p, dy, w, dx, scratch)
	}
}

// GradWeightBF16 computes the gradient with respect to w from x and dy, and
// writes or adds it to dw, unrounded.
func GradWeightBF16(p *Shape, x, dy []uint16, dw, scratch []float32, accumulate bool) {
	switch {
	case tiled.Takes(p):
		tiled.GradWeight(p, x, dy, dw, scratch, accumulate)
	case winogradBF16(p, takesPairs(p, ToWeight)):
		winograd.GradWeight(p, x, dy, dw, scratch, accumulate)
	case takesPairs(p, ToWeight):
		direct.GradWeightBF16(p, x, dy, dw, scratch, accumulate)
	default:
		widenedGradWeight(p, x, dy, dw, scratch, accumulate)
	}
}
