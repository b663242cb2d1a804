package direct

import (
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/cost"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/geometry"
)

// What the algorithm does beside tiles.
const (
	frameRows    = cost.Own + iota // rows that are copied to frames
	frameVectors                   // vectors of these
	splitElems                     // elements of these that a stride picks one by one
	spreadElems                    // elements of these that a stride leaves apart
	gatheredRows                   // rows that are copied together from spread planes
	packedTaps                     // weights
	dotSteps                       // cycles of the multiply-adds of weight gradients, as the core could issue them
	dotCalls                       // calls of their micro-kernel
	dotSums                        // sums that these give
	scattered                      // vectors of planes that lie in many pages
)

// Rates is the cycles of each.
var Rates = cost.Rates{
	kernel.AVX2:   {cost.Steps: 1.07, cost.Calls: 43.5, frameVectors: 7.13, splitElems: 6.78, spreadElems: 6.04, gatheredRows: 14.6, packedTaps: 3, dotSteps: 2.01, dotCalls: 65.6, scattered: 0.00919},
	kernel.AVX512: {cost.Steps: 1.05, cost.Calls: 83.8, cost.Stores: 0.397, frameVectors: 5.89, splitElems: 6.8, spreadElems: 3.66, gatheredRows: 15.3, packedTaps: 3.29, dotSteps: 1.2, dotCalls: 189, scattered: 0.679},
}

// Terms counts what a direction of p does. See package cost.
func Terms(p *geometry.Shape, d geometry.Direction) (t cost.Terms) {
	g, kg := p.GroupCount(), p.K/p.GroupCount()
	switch d {
	case geometry.ToOutput:
		t = tileTerms(p, p.InputFrame(), kg, p.OutH(), p.OutW())
	case geometry.ToInput:
		t = tileTerms(p, p.GradFrame(), p.C/g, p.H, p.W)
		if p.StrideW > 1 {
			t[spreadElems] = float64(p.N * kg * p.OutH() * p.OutW())
			t[splitElems], t[frameVectors] = 0, 0
		}
	default:
		t = dotTerms(p, kg)
	}
	return t.Times(float64(g))
}

func tileTerms(p *geometry.Shape, f geometry.Frame, out, oh, ow int) cost.Terms {
	lanes, taps := kernel.Lanes(), f.Channels*p.R*p.S
	vectors, gathered := oh*kernel.CeilDiv(ow, lanes), 0
	if n := spread(f, out, oh, ow); n > 0 {
		vectors, gathered = kernel.CeilDiv(n/out, lanes), out*oh
	}
	t := cost.Tiles(vectors, taps, out)
	if cost.Scatters(out, oh*ow, f.Channels, f.Plane) {
		t[scattered] = float64(vectors * (out + f.Channels))
	}
	t[gatheredRows] = float64(gathered)
	frameTerms(&t, &f, p.StrideW > 2)
	t = t.Times(float64(p.N))
	t[packedTaps] = float64(taps * out)
	return t
}

func frameTerms(t *cost.Terms, f *geometry.Frame, split bool) {
	rows := f.Channels * f.H
	t[frameRows] = float64(rows)
	if split {
		t[splitElems] = float64(rows * f.W)
	} else {
		t[frameVectors] = float64(rows * kernel.CeilDiv(f.W, kernel.Block))
	}
}

func dotTerms(p *geometry.Shape, filters int) (t cost.Terms) {
	s, f := dotShapes[kernel.Current()], p.InputFrame()
	frameTerms(&t, &f, p.StrideW > 2)
	t = t.Times(float64(p.N))
	rows := s.dotRows
	if filters < rows {
		rows = 1 // of which all of a tile's are then copies
	}
	steps := float64(p.N * p.OutH() * kernel.CeilDiv(p.OutW(), kernel.Lanes()))
	tiles := float64(kernel.CeilDiv(filters, rows) * kernel.CeilDiv(p.PatchSize(), s.dotCols))
	t[dotSteps] = tiles * steps * max(cost.FMAs(float64(s.dotRows*s.dotCols)), float64(s.dotRows+s.dotCols+2)/2, 4)
	t[dotCalls] = tiles * float64(kernel.CeilDiv(p.N, gradBatch(p)))
	t[dotSums] = t[dotCalls] * float64(s.dotRows*s.dotCols)
	return t
}
