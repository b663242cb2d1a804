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

	denseLosses = 1.1 // of the products of weight gradients
	densePacks  = 0.6 // packing an element of dy
)

// Cost is the estimated cycles of a direction of p. See package cost.
func Cost(p *geometry.Shape, d geometry.Direction) float64 {
	if d == geometry.ToWeight && !depthwise(p) {
		return newDense(p).cost()
	}
	f, h, w := inputFrame(p, planeElems), p.OutH(), p.OutW()
	channels, planes, taps, calls := p.C, p.K, float64(p.R*p.S), 1.0
	moves := float64(p.H) * planeRow * float64(kernel.CeilDiv(p.W, narrow))
	if d == geometry.ToInput {
		f = newPlaneGrad(p).planeFrame
		h, w = kernel.CeilDiv(p.H, p.StrideH), kernel.CeilDiv(p.W, p.StrideW)
		channels, planes, calls = p.K, p.C, float64(p.StrideH*p.StrideW)
		moves = float64(p.OutH()) * planeRow * float64(kernel.CeilDiv(p.OutW(), narrow))
		taps *= float64(p.K / p.C)
	}
	out := f.out(h, w)
	results := 0.0
	if out.long > 0 || d == geometry.ToInput && p.StrideW > 1 {
		results = float64(h) * calls * planeRow * float64(kernel.CeilDiv(w, narrow))
	}
	if p.StrideW > 2 {
		moves += cost.ElemCopies * float64(p.H*p.W)
	}
	perImage := float64(h*kernel.CeilDiv(w, out.lanes)*out.lanes) / kernel.Block // vectors of 512 bits
	if out.long > 0 {
		perImage = float64(out.elems()) / float64(out.images) / kernel.Block
	}
	if d == geometry.ToWeight {
		calls = float64(p.StrideH * kernel.CeilDiv(p.S, 3))
	}
	work := 1.2*perImage*taps + calls*planeCalls/float64(f.images)
	return float64(p.N) * (float64(channels)*moves + float64(planes)*(work+results))
}
