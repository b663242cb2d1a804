package kernel

// Convolutions of bfloat16 images, with float32 sums. Layers of few input
// channels multiply pairs of bfloat16 directly; layers of many go through
// minimal filtering in float32, with tiles that float32 results could not
// afford.

// ForwardBF16 reports whether Conv2DBF16 takes this geometry at the active
// level, and is faster than the float32 kernel. Otherwise callers widen to float32.
func (p *Conv) ForwardBF16() bool { return HasBF16() && p.large() }

// GradInputBF16 is ForwardBF16 for Conv2DGradInputBF16.
func (p *Conv) GradInputBF16() bool { return HasBF16() && p.large() }

// GradWeightBF16 is ForwardBF16 for Conv2DGradWeightBF16.
func (p *Conv) GradWeightBF16() bool { return HasBF16() && p.large() }

// ConvBF16Scratch is the number of scratch elements that each of the kernels needs.
func ConvBF16Scratch(p *Conv) int { return largeScratch(p) }

// Conv2DBF16 computes y = conv(x, w) + bias, rounded once; bias may be nil.
func Conv2DBF16(p *Conv, x, w []uint16, bias []float32, y []uint16, scratch []float32) {
	largeForward(p, x, w, bias, y, scratch)
}

// Conv2DGradInputBF16 computes the gradient with respect to x from dy and w, and overwrites dx.
func Conv2DGradInputBF16(p *Conv, dy, w, dx []uint16, scratch []float32) {
	largeGradInput(p, dy, w, dx, scratch)
}

// Conv2DGradWeightBF16 computes the gradient with respect to w from x and dy, and
// writes or adds it to dw, unrounded.
func Conv2DGradWeightBF16(p *Conv, x, dy []uint16, dw, scratch []float32, accumulate bool) {
	largeGradWeight(p, x, dy, dw, scratch, accumulate)
}
