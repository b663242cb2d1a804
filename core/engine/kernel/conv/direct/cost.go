package direct

import (
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/cost"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/geometry"
)

// Cost is the estimated cycles of a direction of p. See package cost.
func Cost(p *geometry.Shape, d geometry.Direction) float64 {
	g, kg, oh, ow := p.GroupCount(), p.K/p.GroupCount(), p.OutH(), p.OutW()
	f := p.InputFrame()
	frames := func(f geometry.Frame) float64 {
		row := frameRow * (1 + float64(kernel.CeilDiv(f.W, kernel.Block)))
		if p.StrideW > 2 || d == geometry.ToInput && p.StrideW > 1 {
			row += cost.ElemCopies * float64(f.W)
		}
		return float64(f.Channels*f.H) * row
	}
	run := func(f geometry.Frame, out, oh, ow int) float64 {
		lanes := kernel.Lanes()
		vectors := oh * kernel.CeilDiv(ow, lanes)
		c := 0.0
		if n := spread(f, out, oh, ow); n > 0 {
			vectors = kernel.CeilDiv(n/out, lanes)
			c = float64(out*oh) * cost.RowCopies
		}
		taps := f.Channels * p.R * p.S
		c += frames(f) + cost.Tiles(vectors, taps, out)
		return float64(g) * (float64(p.N)*c + cost.WeightCopy*float64(taps*out))
	}
	switch d {
	case geometry.ToOutput:
		return run(f, kg, oh, ow)
	case geometry.ToInput:
		return run(p.GradFrame(), p.C/g, p.H, p.W)
	}
	s := dotShapes[kernel.Current()]
	rows := s.dotRows
	if kg < rows {
		rows = 1
	}
	steps := float64(p.N * oh * kernel.CeilDiv(ow, kernel.Lanes()))
	calls := float64(kernel.CeilDiv(kg, rows) * kernel.CeilDiv(p.PatchSize(), s.dotCols))
	step := dotLosses * max(cost.FMAs(float64(rows*s.dotCols)), float64(s.dotRows+s.dotCols+2)/2, 4)
	if kernel.Current() == kernel.AVX2 {
		step *= dotMasks
	}
	batches := float64(kernel.CeilDiv(p.N, gradBatch(p)))
	return float64(g) * (float64(p.N)*frames(f) + calls*(steps*step+batches*(dotCalls+dotSum*float64(rows*s.dotCols))))
}

// frameRow is the cycles of copying a vector of a row to a frame, and of the next row.
const frameRow = 5.0

// Cycles of weight gradients that are not multiply-adds.
const (
	dotCalls  = 45.0 // a call of that of weight gradients, and adding up its lanes
	dotSum    = 6.0  // one such sum
	dotLosses = 1.3  // of a step of it
	dotMasks  = 1.4  // of its masked loads with AVX2
)
