package direct

import (
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/cost"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/geometry"
)

// dotTile is a call of the micro-kernel of weight gradients: for the rows of dy
// and the views of x of one tile, Σ over steps and lanes of dy·x. The layout is
// known to gen/conv/dot.go.
type dotTile struct {
	count  int      // steps of which some lanes count
	steps  *dotStep // whole of them, then count
	dy     *float32 // first row of dy
	stride int      // bytes between rows of dy
	x      [maxDotCols]*float32
	out    *float32 // rows×cols sums
	whole  int      // steps of which all lanes count
}

// dotStep is a vector of pixels: byte offsets into dy and x, and how many lanes count.
type dotStep struct {
	dy, x int32
	lanes kernel.Mask
}

// The largest tile of a weight gradient.
const (
	maxDotRows = 4
	maxDotCols = 6
)

// dotShape is a tile of a weight gradient: lanes of its vectors, rows of dy and views of x.
type dotShape struct{ lanes, rows, cols int }

// dotShapes are those that there are, the widest last.
var dotShapes = [...]dotShape{{8, 4, 3}, {8, 3, 4}, {kernel.Block, maxDotRows, maxDotCols}}

// dotShapeOf is the shape that takes least time for a gradient of some filters.
func dotShapeOf(p *geometry.Shape, filters int) (s dotShape) {
	least := 0.0
	for _, other := range dotShapes {
		if other.lanes > kernel.Lanes() {
			continue
		}
		if c := other.tiles(filters, p.PatchSize()) * other.steps(p) * other.step(); least == 0 || c < least {
			s, least = other, c
		}
	}
	return s
}

// tiles is how many it takes for the sums of all filters and taps.
func (s dotShape) tiles(filters, taps int) float64 {
	if filters >= s.rows {
		filters = kernel.CeilDiv(filters, s.rows)
	}
	return float64(filters * kernel.CeilDiv(taps, s.cols))
}

// steps is the vectors of an image.
func (s dotShape) steps(p *geometry.Shape) float64 {
	return float64(p.OutH() * kernel.CeilDiv(p.OutW(), s.lanes))
}

// step is the cycles of a tile for a vector of pixels, as the core could issue them.
func (s dotShape) step() float64 {
	return max(cost.FMAsOf(s.lanes, float64(s.rows*s.cols)), float64(s.rows+s.cols+2)/2, 4)
}
