package cost

import (
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/gemm"
)

// The model of what a convolution costs, in cycles of a core that issues 512 bits of
// multiply-adds and two loads in each. It decides between algorithms only, so what
// counts is their ratio: `trainctl bench kernels --algorithms` measures how far its
// choice is from the best. Constants are fitted to such measurements.

// Cycles of things that are not multiply-adds.
const (
	TileCalls  = 22.0 // a call of the micro-kernel, and storing its tile
	RowCopies  = 12.0 // copying a short row of an image
	ElemCopies = 1.1  // copying an element that lies apart from the next
	WeightCopy = 1.2  // packing a weight one by one
	gemmLosses = 1.2  // of a matrix product, in excess of its multiply-adds
)

// FMAs is the cycles of n multiply-adds of vectors.
func FMAs(n float64) float64 { return n * float64(kernel.Lanes()) / float64(kernel.Block) }

// tileStep is the cycles of a tile of the micro-kernel for one product of each sum: a
// load of each vector, a broadcast for each row, and sums that wait for those before.
func tileStep(rows int) float64 {
	return max(FMAs(float64(2*rows)), float64(rows+3)/2, 4)
}

// Tiles is the cycles of out rows of vectors, of in products each.
func Tiles(vectors, in, out int) float64 {
	most := gemm.TileShapes[kernel.Current()].Rows
	height, blocks := gemm.EvenRows(out, most), kernel.CeilDiv(in, gemm.BlockK)
	panels := float64(out) / float64(height)
	return float64(kernel.CeilDiv(vectors, 2)) * panels * (tileStep(height)*float64(in) + TileCalls*float64(blocks))
}

// MatrixProduct is the cycles of a matrix product by Gemm.
func MatrixProduct(m, n, k int) float64 {
	lanes := kernel.Lanes()
	padded := kernel.CeilDiv(n, lanes) * lanes
	return gemmLosses*float64(m)*float64(padded)*float64(k)/kernel.Block + WeightCopy/4*(float64(m)+float64(n))*float64(k) + float64(m)*float64(n)
}
