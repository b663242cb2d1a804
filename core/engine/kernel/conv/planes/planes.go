package planes

import (
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/fours"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/geometry"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/lines"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/thirds"
)

// Depthwise convolution: every output channel sees one channel, so that there is no matrix
// product, and vectors are pixels of one plane. The planes of a channel of some images are
// copied into a frame of zeros, which is split by the phases of the stride; then every
// stride, dilation and filter is a list of offsets. Planes lie side by side in it: rows that are
// shorter than a vector are computed together, and what lies between them is dropped.

// maxStride is the longest stride that this package takes.
const maxStride = 4

// Takes reports whether a convolution is depthwise, with filters of more than one tap or stride 1, and its planes are looked at. The gradient of weights is
// computed for all convolutions; see dense.go.
func Takes(p *geometry.Shape, d geometry.Direction) bool {
	if d != geometry.ToWeight && !p.Depthwise() || max(p.StrideH, p.StrideW) > maxStride {
		return false
	}
	if _, ok := lines.Of(p); ok {
		return true
	}
	if _, ok := thirdsOf(p, d); ok {
		return true
	}
	if p.Depthwise() && p.R*p.S == 1 { // package product takes a quarter of the time
		return false
	}
	f := inputFrame(p, planeElems)
	if d == geometry.ToInput {
		f = newPlaneGrad(p).planeFrame
	}
	return f.h > 0 && f.w > 0
}

// thirdsOf is the direction of p by package thirds, if no other kernels take less time for it.
func thirdsOf(p *geometry.Shape, d geometry.Direction) (thirds.Thirds, bool) {
	s, ok := thirds.Of(p, d)
	short := d == geometry.ToInput && p.OutW() <= narrow // rows that leave half of a wider vector empty
	return s, ok && !takesSmall(p, d) && (short || !takesWideStrided(p, d))
}

// foursOf is p by package fours, if no wider vectors take less time for it.
func foursOf(p *geometry.Shape) (fours.Fours, bool) {
	f, ok := fours.Of(p)
	return f, ok && (!kernel.Wide() || kernel.Halves())
}

// inputFrame is that of x, of as many images as fit into room elements.
func inputFrame(p *geometry.Shape, room int) planeFrame {
	return newPlaneFrame(p.N, room, p.H, p.W, p.StrideH, p.StrideW, p.PadH, p.PadW,
		p.OutH()+(p.R-1)*p.DilationH()/p.StrideH, p.OutW()+(p.S-1)*p.DilationW()/p.StrideW, p.OutW())
}

// Scratch is the number of scratch elements that a direction needs.
func Scratch(p *geometry.Shape, d geometry.Direction) int {
	if d == geometry.ToWeight && !p.Depthwise() {
		return newDense(p).scratch()
	}
	if reachesAcross(p) {
		return acrossScratch(p)
	}
	if s, ok := thirdsOf(p, d); ok {
		return s.Scratch()
	}
	if f, ok := foursOf(p); ok {
		return f.Scratch(d)
	}
	if l, ok := lines.Of(p); ok {
		return l.Scratch(d)
	}
	if takesSmall(p, d) {
		return smallScratch(p, d)
	}
	if takesWide(p, d) {
		s := wideOf(p, d)
		return s.scratch(d)
	}
	if takesWideStrided(p, d) {
		return wideStridedScratch(p, d)
	}
	if takesTiles(p, d) {
		s := tiledOf(p, d)
		return s.scratch(d)
	}
	if slides(p, d) {
		s := sliderOf(p, d)
		return s.scratch()
	}
	if isStrided(p, d) {
		return stridedScratch(p, d)
	}
	f, taps := inputFrame(p, planeElems), p.R*p.S
	switch d {
	case geometry.ToInput:
		g, multiplier := newPlaneGrad(p), p.K/p.C
		out := &g.tallest
		return multiplier*(2*taps+g.elems()) + p.K*taps + p.StrideH*p.StrideW*out.elems() + 2*kernel.Block
	case geometry.ToWeight:
		o := newDotsOut(p, &f)
		return taps*dotsCallElems + f.elems() + o.h*o.line() + p.K*taps
	}
	out := f.out(p.OutH(), p.OutW())
	return 2*taps + p.K*taps + f.elems() + out.elems() + kernel.Block
}

// Forward computes y = conv(x, w) + bias; bias may be nil.
func Forward(p *geometry.Shape, x, w, bias, y, scratch []float32) {
	if reachesAcross(p) {
		a := newAcross(p, scratch)
		a.forward(x, w, bias, y)
		return
	}
	if s, ok := thirdsOf(p, geometry.ToOutput); ok {
		s.Forward(x, w, bias, y, scratch)
		return
	}
	if f, ok := foursOf(p); ok {
		f.Forward(x, w, bias, y)
		return
	}
	if l, ok := lines.Of(p); ok {
		l.Forward(x, w, bias, y, scratch)
		return
	}
	if takesSmall(p, geometry.ToOutput) {
		smallForward(p, x, w, bias, y, scratch)
		return
	}
	if takesWide(p, geometry.ToOutput) {
		wideForward(p, x, w, bias, y, scratch)
		return
	}
	if takesWideStrided(p, geometry.ToOutput) {
		wideStridedForward(p, x, w, bias, y, scratch)
		return
	}
	if takesTiles(p, geometry.ToOutput) {
		tilesForward(p, x, w, bias, y, scratch)
		return
	}
	if slides(p, geometry.ToOutput) {
		slideForward(p, x, w, bias, y, scratch)
		return
	}
	if isStrided(p, geometry.ToOutput) {
		s, _ := newStrided(p, scratch)
		s.forward(x, w, bias, y)
		return
	}
	f, taps, plane := inputFrame(p, planeElems), p.R*p.S, p.OutH()*p.OutW()
	out := f.out(p.OutH(), p.OutW())
	table, scratch := f.inputTaps(p, scratch)
	packed, scratch := scratch[:p.K*taps], scratch[p.K*taps:]
	table.pack(p.K, taps, w, packed)
	frame, long := scratch[:f.elems()], scratch[f.elems():]
	clear(frame)
	f.prepare(p.C*p.H*p.W, p.W)
	var t planeTile
	table.set(&t)
	for n := 0; n < p.N; n += f.images {
		images := min(f.images, p.N-n)
		for k := range p.K {
			if multiplier := p.K / p.C; k%multiplier == 0 {
				f.fill(images, x[(n*p.C+k/multiplier)*p.H*p.W:], frame)
			}
			if t.weights = &packed[k*taps]; bias != nil {
				t.bias = bias[k]
			}
			out.finish(&t, images, table.every, p.K*plane, out.w, frame, y[(n*p.K+k)*plane:], long)
		}
	}
}

// finish is run for results that are written to their places, through long if need be.
func (o *planeOut) finish(t *planeTile, images, every, image, line int, x, y, long []float32) {
	if o.long == 0 {
		t.ahead = aheadBytes
		o.run(t, images, every, image, line, x, y)
		return
	}
	o.run(t, images, every, 0, o.line(), x, long)
	o.cut(images, long, y, image, line)
}
