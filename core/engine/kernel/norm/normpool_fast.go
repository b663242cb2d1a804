package norm

import (
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/pool"
)

// poolGradTile is a call of the vector kernels of the backward pass of batch
// norm, ReLU and 2×2 max pooling over a plane. Two rows of x are one run of
// vectors; the last ends where the run ends, so that nothing is masked and no
// load waits for a masked store. The layout is known to gen/normpool.go.
type poolGradTile struct {
	rows                       int // pooled ones
	x                          *float32
	stride                     int // bytes between pairs of rows of x and dx
	dy, y                      *float32
	idx                        *int32
	outStride                  int         // bytes between rows of dy, y and idx
	n                          kernel.Mask // columns of these
	last                       int         // bytes from the run's start to its last vector
	counts                     kernel.Mask // lanes of the last vector that no other has
	mean, meanDy, slope, scale float32
	dx                         *float32
	sum, dot                   float32 // results
	spreadTable
}

// spreadTable holds, for each lane of the vectors of a run, the lane of the pooled
// vector above it, and its place in the first two rows of the plane.
type spreadTable struct {
	lane, place [maxRunVectors * kernel.Block]int32
}

const maxRunVectors = 4

// spreads reports whether a pair of rows makes such a run.
func spreads(p *pool.Shape) bool {
	return kernel.Current() == kernel.AVX512 && p.Halves() && p.H%2 == 0 && p.W%2 == 0 &&
		2*p.W >= kernel.Block && 2*p.W <= maxRunVectors*kernel.Block
}

// set prepares everything but the plane.
func (t *poolGradTile) set(p *pool.Shape) (vectors int) {
	run := 2 * p.W
	vectors = kernel.CeilDiv(run, kernel.Block)
	for i := range vectors * kernel.Block {
		e := i
		if i >= (vectors-1)*kernel.Block {
			e = run - vectors*kernel.Block + i
		}
		t.lane[i], t.place[i] = int32(e%p.W/2), int32(e)
	}
	twice := vectors*kernel.Block - run // lanes that the last two share
	t.rows, t.stride, t.outStride = p.H/2, 4*run, 2*p.W
	t.n, t.last = kernel.FirstLanes(p.W/2), 4*(run-kernel.Block)
	t.counts = kernel.FirstLanes(kernel.Block) &^ (kernel.FirstLanes(twice))
	return vectors
}
