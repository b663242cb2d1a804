package kernel

// Convolutions of bfloat16 images, with float32 sums. Layers whose channels come
// in sixteens go through minimal filtering in float32, with tiles that float32
// results could not afford; others multiply pairs of bfloat16.

func (p *Conv) minimal16() bool { return HasBF16() && p.minimalBy(tileSide[uint16](p)) }

func minimal16Scratch(p *Conv) int {
	if !p.minimal16() {
		return 0
	}
	return minimalScratch[uint16](p)
}

// ForwardBF16 reports whether Conv2DBF16 takes this geometry at the active
// level, and is faster than the float32 kernel. Otherwise callers widen to float32.
func (p *Conv) ForwardBF16() bool { return p.minimal16() || p.direct16(p.C, p.K) }

// GradInputBF16 is ForwardBF16 for Conv2DGradInputBF16.
func (p *Conv) GradInputBF16() bool { return p.minimal16() || p.direct16(p.K, p.C) }

// GradWeightBF16 is ForwardBF16 for Conv2DGradWeightBF16.
func (p *Conv) GradWeightBF16() bool { return p.minimal16() || p.directWeight16() }

// ConvBF16Scratch is the number of scratch elements that each of the kernels needs.
func ConvBF16Scratch(p *Conv) int {
	return max(minimal16Scratch(p), direct16Scratch(p), directWeight16Scratch(p))
}

// Conv2DBF16 computes y = conv(x, w) + bias, rounded once; bias may be nil. It
// needs ForwardBF16.
func Conv2DBF16(p *Conv, x, w []uint16, bias []float32, y []uint16, scratch []float32) {
	if p.minimal16() {
		minimalForward(p, x, w, bias, y, scratch)
		return
	}
	direct16Forward(p, x, w, bias, y, scratch)
}

// Conv2DGradInputBF16 computes the gradient with respect to x from dy and w, and
// overwrites dx, rounded once. It needs GradInputBF16.
func Conv2DGradInputBF16(p *Conv, dy, w, dx []uint16, scratch []float32) {
	if p.minimal16() {
		minimalGradInput(p, dy, w, dx, scratch)
		return
	}
	direct16GradInput(p, dy, w, dx, scratch)
}

// Conv2DGradWeightBF16 computes the gradient with respect to w from x and dy, and
// writes or adds it to dw, unrounded. It needs GradWeightBF16.
func Conv2DGradWeightBF16(p *Conv, x, dy []uint16, dw, scratch []float32, accumulate bool) {
	if p.minimal16() {
		minimalGradWeight(p, x, dy, dw, scratch, accumulate)
		return
	}
	direct16GradWeight(p, x, dy, dw, scratch, accumulate)
}
