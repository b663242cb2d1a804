package norm

import (
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/pool"
)

// poolGradTile is a call of the vector kernels of the backward pass of batch
// norm, ReLU and 2×2 max pooling over a plane. Two rows of x are one run of
// vectors; the last ends where the run ends, so that nothing is masked and no
// load waits for a masked store. The layout is known to gen/norm/normpool.go.
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

// poolGradStrip is a call of the vector kernels for registers of 8 lanes: up to 8 columns
// of pooled values over all rows of a plane. The layout is known to gen/norm/normpool_strip.go.
type poolGradStrip struct {
	rows                       int // pooled ones
	x                          *float32
	width                      int // bytes between rows of x and dx
	dy, y                      *float32
	idx                        *int32
	outStride                  int // bytes between rows of dy, y and idx
	dx                         *float32
	from                       int         // place of the strip's first pixel
	n, left, right             kernel.Mask // columns of dy, and of the two vectors below
	mean, meanDy, slope, scale float32
	sum, dot                   float32 // results
	ahead, outAhead            int     // bytes to the next image's plane, of x and of dy
	stripTable
}

// stripTable holds how much places grow by from one pair of rows to the next, and those of
// the left and right pixels of the windows, in the first row and in the second.
type stripTable struct {
	step  [stripLanes]int32
	place [4 * stripLanes]int32
}

const stripLanes = 8

// strips reports whether the kernels of strips fit.
func strips(p *pool.Shape) bool {
	return kernel.Current() == kernel.AVX2 && p.Halves() && p.H%2 == 0 && p.W%2 == 0
}

// set prepares everything but the plane.
func (t *poolGradStrip) set(p *pool.Shape) {
	t.rows, t.width, t.outStride = p.H/2, 4*p.W, 2*p.W
	t.ahead, t.outAhead = 4*p.C*p.H*p.W, p.C*p.H*p.W
	for i := range t.step {
		t.step[i] = int32(2 * p.W)
		lane := [stripLanes]int{0, 1, 4, 5, 2, 3, 6, 7}[i] // whose even and odd columns are interleaved within halves
		for j, off := range []int{0, 1, p.W, p.W + 1} {
			t.place[j*stripLanes+i] = int32(2*lane + off)
		}
	}
}

// run calls the kernel of one pass for each strip of a plane, and adds up their results.
func (t *poolGradStrip) run(grad bool, x, y, dy []float32, idx []int32, dx []float32) (sum, dot float64) {
	for j := 0; j < t.width/8; j += stripLanes {
		n := min(stripLanes, t.width/8-j)
		t.from, t.x, t.y, t.dy, t.idx, t.dx = 2*j, &x[2*j], &y[j], &dy[j], &idx[j], &dx[2*j]
		t.n, t.left, t.right = kernel.FirstLanes(n), kernel.FirstLanes(min(2*n, stripLanes)), kernel.FirstLanes(max(2*n-stripLanes, 0))
		switch {
		case grad && n == stripLanes:
			vecStripGrad(t)
		case grad:
			vecStripGradPart(t)
		case n == stripLanes:
			vecStripSums(t)
		default:
			vecStripSumsPart(t)
		}
		sum += float64(t.sum)
		dot += float64(t.dot)
	}
	return sum, dot
}
