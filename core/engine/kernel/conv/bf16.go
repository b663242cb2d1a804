package conv

import "github.com/trainctl/trainctl/core/engine/kernel"

// Convolutions of bfloat16 images, with float32 sums. Layers whose channels come
// in sixteens go through Winograd in float32, with tiles that float32
// results could not afford; others multiply pairs of bfloat16.

func (p *Shape) winogradBF16() bool { return kernel.HasBF16() && p.winogradBy(tileSide[uint16](p)) }

func winogradBF16Scratch(p *Shape) int {
	if !p.winogradBF16() {
		return 0
	}
	return winogradScratch[uint16](p)
}

// FastForwardBF16 reports whether ForwardBF16 has a vector kernel for this geometry at the active
// level, and is faster than the float32 kernel. Otherwise callers widen to float32.
func (p *Shape) FastForwardBF16() bool { return p.winogradBF16() || p.direct16(p.C, p.K) }

// FastGradInputBF16 is FastForwardBF16 for GradInputBF16.
func (p *Shape) FastGradInputBF16() bool { return p.winogradBF16() || p.direct16(p.K, p.C) }

// FastGradWeightBF16 is FastForwardBF16 for GradWeightBF16.
func (p *Shape) FastGradWeightBF16() bool { return p.winogradBF16() || p.directWeight16() }

// BF16Scratch is the number of scratch elements that each of the kernels needs.
func BF16Scratch(p *Shape) int {
	n := max(winogradBF16Scratch(p), direct16Scratch(p), directWeight16Scratch(p))
	if !p.FastForwardBF16() || !p.FastGradInputBF16() || !p.FastGradWeightBF16() {
		n = max(n, widenedScratch(p))
	}
	return n
}

// ForwardBF16 computes y = conv(x, w) + bias, rounded once; bias may be nil.
func ForwardBF16(p *Shape, x, w []uint16, bias []float32, y []uint16, scratch []float32) {
	switch {
	case p.winogradBF16():
		winogradForward(p, x, w, bias, y, scratch)
	case p.direct16(p.C, p.K):
		direct16Forward(p, x, w, bias, y, scratch)
	default:
		widenedForward(p, x, w, bias, y, scratch)
	}
}

// GradInputBF16 computes the gradient with respect to x from dy and w, and
// overwrites dx, rounded once.
func GradInputBF16(p *Shape, dy, w, dx []uint16, scratch []float32) {
	switch {
	case p.winogradBF16():
		winogradGradInput(p, dy, w, dx, scratch)
	case p.direct16(p.K, p.C):
		direct16GradInput(p, dy, w, dx, scratch)
	default:
		widenedGradInput(p, dy, w, dx, scratch)
	}
}

// GradWeightBF16 computes the gradient with respect to w from x and dy, and
// writes or adds it to dw, unrounded.
func GradWeightBF16(p *Shape, x, dy []uint16, dw, scratch []float32, accumulate bool) {
	switch {
	case p.winogradBF16():
		winogradGradWeight(p, x, dy, dw, scratch, accumulate)
	case p.directWeight16():
		direct16GradWeight(p, x, dy, dw, scratch, accumulate)
	default:
		widenedGradWeight(p, x, dy, dw, scratch, accumulate)
	}
}
