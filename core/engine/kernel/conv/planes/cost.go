package planes

import (
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/cost"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/geometry"
)

// Cycles of depthwise convolution.
const (
	planeCalls = 30.0 // a call of a micro-kernel
	planeRow   = 3.0  // copying a row
)

// Cost is the estimated cycles of a direction of p. See package cost.
func Cost(p *geometry.Shape, d geometry.Direction) float64 {
	f := inputFrame(p)
	out := newPlaneOut(p.OutH(), p.OutW(), f.width)
	channels, taps := p.C, float64(p.R*p.S)
	moves := float64(p.H) * planeRow * float64(kernel.CeilDiv(p.W, 8))
	planes, calls := p.K, 1.0
	if d == geometry.ToInput {
		g := newPlaneGrad(p)
		f, out, channels, planes = g.planeFrame, g.out(p.H), p.K, p.C
		taps *= float64(p.K/p.C) / float64(p.StrideH)
		calls = float64(p.StrideH * p.StrideW)
	}
	if f.stepW > 2 || d == geometry.ToInput && p.StrideW > 2 {
		moves += cost.ElemCopies * float64(p.H*p.W)
	}
	vectors := float64(out.elems()) / float64(kernel.Block) // of 512 bits
	if out.long > 0 || d == geometry.ToInput && p.StrideW > 1 {
		moves += float64(out.h) * planeRow * float64(kernel.CeilDiv(out.w, 8))
	}
	work := 1.1 * vectors * taps
	if d == geometry.ToWeight {
		calls = float64(kernel.CeilDiv(p.R*p.S, planeViews))
		work = 1.1 * vectors * calls * planeViews
	}
	batch := float64(f.batch(p.N, 1))
	return float64(p.N)*(float64(channels)*moves+float64(planes)*(work+calls*planeCalls/batch)) + planeCalls*float64(p.N)/batch*float64(planes+channels)
}
