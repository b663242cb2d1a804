package direct

import "github.com/trainctl/trainctl/core/engine/kernel"

// dotTile is a call of the micro-kernel of weight gradients: for the rows of dy
// and the views of x of one tile, Σ over steps and lanes of dy·x. The layout is
// known to gen/conv/dot.go.
type dotTile struct {
	count  int      // steps of which some lanes count
	steps  *dotStep // whole of them, then count
	dy     *float32 // first row of dy
	stride int      // bytes between rows of dy
	x      [maxDotCols]*float32
	out    *float32 // dotRows×dotCols sums
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

// dotShape is the tile of a weight gradient that suits a level: rows of dy and views of x.
type dotShape struct{ dotRows, dotCols int }

var dotShapes = [...]dotShape{
	kernel.NEON:   {3, 3},
	kernel.AVX2:   {3, 3},
	kernel.AVX512: {maxDotRows, maxDotCols},
}
