package geometry

import "github.com/trainctl/trainctl/core/engine/kernel"

// Axis says where one dimension of an image meets the taps: output j and tap t
// look at input j·stride + first + t·step.
type Axis struct{ In, Out, Stride, Taps, First, Step int }

// Least is what output 0 sees through the tap that looks back furthest.
func (a *Axis) Least() int { return a.First + min(0, (a.Taps-1)*a.Step) }

// Reach is how many inputs one output looks over.
func (a *Axis) Reach() int { return (a.Taps-1)*max(a.Step, -a.Step) + 1 }

// Span is how many inputs n outputs look over.
func (a *Axis) Span(n int) int { return (n-1)*a.Stride + a.Reach() }

// Tap is the distance of tap t from least.
func (a *Axis) Tap(t int) int { return a.First + t*a.Step - a.Least() }

// Phase is one remainder of a pixel's position modulo the stride: the first such
// pixel, how many there are, and the taps that reach them, every some of which step back in dy.
type Phase struct {
	Pixel, Pixels         int
	FirstTap, EveryTap, N int
	Axis                  Axis
}

// Phases calls f for every pair of phases that some tap reaches.
func (p *Shape) Phases(f func(h, w Phase)) {
	for a := range p.StrideH {
		h := NewPhase(a, p.H, p.OutH(), p.StrideH, p.PadH, p.R, p.DilationH())
		for b := range p.StrideW {
			w := NewPhase(b, p.W, p.OutW(), p.StrideW, p.PadW, p.S, p.DilationW())
			if h.N > 0 && w.N > 0 && h.Pixels > 0 && w.Pixels > 0 {
				f(h, w)
			}
		}
	}
}

// NewPhase finds the pixels i with (i + pad) mod stride = a, and the taps with
// t·dil mod stride = a: pixel i and tap t meet dy at (i + pad − t·dil) / stride.
func NewPhase(a, in, out, stride, pad, taps, dil int) Phase {
	h := Phase{Pixel: ((a-pad)%stride + stride) % stride}
	h.Pixels = max(0, kernel.CeilDiv(in-h.Pixel, stride))
	for t := range taps {
		if t*dil%stride != a {
			continue
		}
		if h.N++; h.N == 1 {
			h.FirstTap = t
		} else if h.N == 2 {
			h.EveryTap = t - h.FirstTap
		}
	}
	h.Axis = Axis{In: out, Out: h.Pixels, Stride: 1, Taps: h.N, First: (h.Pixel + pad - h.FirstTap*dil) / stride, Step: -h.EveryTap * dil / stride}
	return h
}

// Lead is how far any phase of a dimension looks back before dy, and how many elements from there on are looked at.
func Lead(in, out, stride, pad, taps, dil int) (lead, elems int) {
	end := 0
	for a := range stride {
		if h := NewPhase(a, in, out, stride, pad, taps, dil); h.N > 0 {
			lead = max(lead, -h.Axis.Least())
			end = max(end, kernel.CeilDiv(in, stride)+h.Axis.First)
		}
	}
	return lead, end + lead
}
