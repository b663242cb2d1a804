package conv

import (
	"github.com/trainctl/trainctl/core/engine/kernel/conv/direct"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/winograd"
)

// Convolutions of bfloat16 images, with float32 sums. Layers of at least 16
// channels go through Winograd where that saves products, in float32, with tiles that float32
// results could not afford; others multiply pairs of bfloat16, as do filters of 1×1, which Winograd saves no products.

// winogradBF16 reports whether Winograd computes a direction, which pairs of bfloat16 could compute, too, or not.
func winogradBF16(p *Shape, pairs bool) bool {
	return winograd.TakesBF16(p) && !(pairs && p.R*p.S == 1)
}

// FastForwardBF16 reports whether ForwardBF16 has a vector kernel for this geometry at the active
// level, and is faster than the float32 kernel. Otherwise callers widen to float32.
func FastForwardBF16(p *Shape) bool { return winograd.TakesBF16(p) || direct.TakesBF16(p, p.C, p.K) }

// FastGradInputBF16 is FastForwardBF16 for GradInputBF16.
func FastGradInputBF16(p *Shape) bool { return winograd.TakesBF16(p) || direct.TakesBF16(p, p.K, p.C) }

// FastGradWeightBF16 is FastForwardBF16 for GradWeightBF16.
func FastGradWeightBF16(p *Shape) bool { return winograd.TakesBF16(p) || direct.TakesWeightBF16(p) }

// BF16Scratch is the number of scratch elements that each of the kernels needs.
func BF16Scratch(p *Shape) int {
	n := 0
	if winograd.TakesBF16(p) {
		n = winograd.Scratch[uint16](p)
		if p.R*p.S > 1 {
			return n
		}
	}
	n = max(n, direct.BF16Scratch(p), direct.BF16WeightScratch(p))
	if !FastForwardBF16(p) || !FastGradInputBF16(p) || !FastGradWeightBF16(p) {
		n = max(n, widenedScratch(p))
	}
	return n
}

// ForwardBF16 computes y = conv(x, w) + bias, rounded once; bias may be nil.
func ForwardBF16(p *Shape, x, w []uint16, bias []float32, y []uint16, scratch []float32) {
	switch {
	case winogradBF16(p, direct.TakesBF16(p, p.C, p.K)):
		winograd.Forward(p, x, Filters[uint16]{Own: w}, bias, y, scratch)
	case direct.TakesBF16(p, p.C, p.K):
		direct.ForwardBF16(p, x, w, bias, y, scratch)
	default:
		widenedForward(p, x, w, bias, y, scratch)
	}
}

// GradInputBF16 computes the gradient with respect to x from dy and w, and
// overwrites dx, rounded once.
func GradInputBF16(p *Shape, dy, w, dx []uint16, scratch []float32) {
	switch {
	case winogradBF16(p, direct.TakesBF16(p, p.K, p.C)):
		winograd.GradInput(p, dy, Filters[uint16]{Own: w}, dx, scratch)
	case direct.TakesBF16(p, p.K, p.C):
		direct.GradInputBF16(p, dy, w, dx, scratch)
	default:
		widenedGradInput(p, dy, w, dx, scratch)
	}
}

// GradWeightBF16 computes the gradient with respect to w from x and dy, and
// writes or adds it to dw, unrounded.
func GradWeightBF16(p *Shape, x, dy []uint16, dw, scratch []float32, accumulate bool) {
	switch {
	case winogradBF16(p, direct.TakesWeightBF16(p)):
		winograd.GradWeight(p, x, dy, dw, scratch, accumulate)
	case direct.TakesWeightBF16(p):
		direct.GradWeightBF16(p, x, dy, dw, scratch, accumulate)
	default:
		widenedGradWeight(p, x, dy, dw, scratch, accumulate)
	}
}
