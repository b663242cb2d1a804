package winograd

import (
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/cost"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/geometry"
)

// Cost is a small constant wherever tiles save products, so that Winograd is chosen there. Filters
// of 1×1 save none, and have an estimate.
func Cost(p *geometry.Shape) float64 {
	if !picks(p) {
		return 1
	}
	pixels := float64(p.N * p.OutH() * p.OutW())
	return 1.1 * pixels * float64(p.C) * float64(p.K) / kernel.Block
}

// laneCopies is the cycles of transposing an element of dy to vectors of channels.
const laneCopies = 0.3

// LanesCost is the estimated cycles of LanesGradWeight.
func LanesCost(p *geometry.Shape) float64 {
	c := newLanesCall(p)
	perRow, calls := 0.0, 0 // of taps
	for s := 0; s < p.S; calls++ {
		taps, vectors := tapsAtOnce(p.S-s), 2*c.blocks
		perRow += max(cost.FMAs(float64(taps*vectors)), float64(taps+vectors)/2, 4)
		s += taps
	}
	steps := float64(p.N * p.OutH() * c.width)
	bands := float64(p.N * kernel.CeilDiv(p.OutH(), c.rows) * calls)
	passes := float64(p.K / (c.blocks * channelLanes) * p.C * p.R)
	return float64(p.N*p.C*p.H)*cost.RowCopies + laneCopies*steps*float64(p.K) + passes*(steps*perRow+cost.TileCalls*bands)
}
