package norm

import (
	"unsafe"

	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/pool"
	"github.com/trainctl/trainctl/core/tensor"
)

// poolGradTile is a call of the vector kernels of the backward pass of batch
// norm, ReLU and 2×2 max pooling over planes that lie side by side. Two rows of x are one run of
// vectors; the last ends where the run ends, so that nothing is masked and no
// load waits for a masked store. The layout is known to gen/norm/normpool.go.
type poolGradTile struct {
	rows      int // pooled ones
	x         *float32
	stride    int // bytes between pairs of rows of x and dx
	dy, y     *float32
	idx       *int32
	outStride int         // bytes between rows of dy, y and idx
	n         kernel.Mask // columns of these; 0: vectors of them may be read whole, by a gradient in registers of 8 lanes
	last      int         // bytes from the run's start to its last vector
	counts    kernel.Mask // lanes of the last vector that no other has
	planes    int
	each      *poolPlane
	dx        *float32
	spreadTable
}

// poolPlane is what a plane's gradient takes, and its results: Σdy and Σdy·(x−mean), or as a sum Σdx. The layout is known to gen/norm/normpool.go.
type poolPlane struct {
	mean, meanDy, slope, scale float32
	sum, dot                   float32
}

// spreadTable holds, for each lane of the vectors of a run, the lane of the pooled
// vector above it, and its place in the first two rows of the plane.
type spreadTable struct {
	lane, place [maxRunVectors * kernel.Block]int32
	counted     [stripLanes]int32 // counts for AVX2: −1 or 0
	step        [stripLanes]int32 // how much places grow by from one pair of rows to the next
}

const maxRunVectors = 4

// spreads reports whether a pair of rows makes such a run.
func spreads(p *pool.Shape) bool {
	lanes := kernel.Lanes()
	return lanes > 0 && inPairs(p) && 2*p.W >= lanes && 2*p.W <= maxRunVectors*lanes
}

// set prepares everything but the plane.
func (t *poolGradTile) set(p *pool.Shape) (vectors int) {
	run, lanes := 2*p.W, kernel.Lanes()
	vectors = kernel.CeilDiv(run, lanes)
	for i := range vectors * lanes {
		e := i
		if i >= (vectors-1)*lanes {
			e = run - vectors*lanes + i
		}
		t.lane[i], t.place[i] = int32(e%p.W/2), int32(e)
	}
	twice := vectors*lanes - run // lanes that the last two share
	t.rows, t.stride, t.outStride = p.H/2, 4*run, 2*p.W
	t.n, t.last = kernel.FirstLanes(p.W/2), 4*(run-lanes)
	if lanes == kernel.Block {
		t.counts = kernel.FirstLanes(lanes) &^ (kernel.FirstLanes(twice))
	}
	for i := range t.step {
		t.step[i] = int32(run)
		if i >= twice {
			t.counted[i] = -1
		}
	}
	return vectors
}

// sums and grad are the passes over runs of so many vectors. A call through a table would move the tile to the heap.
func (t *poolGradTile) sums(vectors int) {
	switch vectors {
	case 1:
		vecNormPoolSums1(t)
	case 2:
		vecNormPoolSums2(t)
	case 3:
		vecNormPoolSums3(t)
	default:
		vecNormPoolSums4(t)
	}
}

func (t *poolGradTile) grad(vectors int) {
	switch vectors {
	case 1:
		vecNormPoolGrad1(t)
	case 2:
		vecNormPoolGrad2(t)
	case 3:
		vecNormPoolGrad3(t)
	default:
		vecNormPoolGrad4(t)
	}
}

// poolStrip is a call of the vector kernels for registers of 8 lanes: up to 8 columns of pooled
// values over all rows of a plane of float32 or halves. The layout is known to gen/norm/normpool_strip.go.
type poolStrip struct {
	rows                      int // pooled ones
	x                         unsafe.Pointer
	width                     int // bytes between rows of x and dx
	dy, y                     unsafe.Pointer
	idx                       *int32
	outStride                 int // bytes between rows of dy and y
	dx                        unsafe.Pointer
	from                      int         // place of the strip's first pixel
	n, left, right            kernel.Mask // columns of dy, and of the two vectors below
	mean, shift, slope, scale float32     // backward; shift: the mean of dy
	sum, dot                  float32     // results
	ahead, outAhead           int         // bytes to the plane that comes next, of x and of dy
	stripTable
	planes  int // forward: that lie side by side
	factors *pool.NormFactors
	d       tensor.DType // of the images
	spill   bool         // forward: what follows the plane's outputs is written later, and may be overwritten until then
	// unmasked says that what follows the plane may be read, of float32 and backward: see directStrips.
	unmasked bool
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
	return (kernel.Current() == kernel.AVX2 || kernel.Current() == kernel.NEON) && inPairs(p)
}

// forwardStrips reports whether the forward kernel of strips does: wider vectors would be half empty above planes as
// narrow as two of its own.
func forwardStrips(p *pool.Shape) bool {
	return strips(p) || kernel.Current() == kernel.AVX512 && inPairs(p) && p.W <= 2*stripLanes
}

// inPairs reports whether rows and columns are pooled in pairs, with none left.
func inPairs(p *pool.Shape) bool { return p.Halves() && p.H%2 == 0 && p.W%2 == 0 }

// directStrips reports whether the kernels may read the i-th of p's planes without masks, and those of a half type where they lie: they
// read up to 8 elements from the last columns on, and what follows the last planes may not be there.
func directStrips(p *pool.Shape, i int) bool {
	return p.W%(2*stripLanes) == 0 || (p.N*p.C-1-i)*p.H*p.W >= 4*stripLanes
}

// spills reports whether a whole strip of a narrow plane i may read and write beyond its end: rows come one after the
// other, and what one of them writes behind itself is outputs of the next ones.
func spills(p *pool.Shape, i int) bool {
	left := p.N*p.C - 1 - i
	return left*p.H*p.W >= 2*stripLanes-p.W && left*p.OutH()*p.OutW() >= stripLanes-p.OutW()
}

// set prepares everything but the plane, for images of d of which as many planes as there are channels
// lie between one and the next to come.
func (t *poolStrip) set(p *pool.Shape, d tensor.DType, channels int) {
	size := d.Size()
	t.d, t.rows, t.width, t.outStride = d, p.H/2, size*p.W, size*p.W/2
	t.ahead, t.outAhead = size*channels*p.H*p.W, size*channels*p.H*p.W/4
	for i := range t.step {
		t.step[i] = int32(2 * p.W)
		lane := [stripLanes]int{0, 1, 4, 5, 2, 3, 6, 7}[i] // whose even and odd columns are interleaved within halves
		for j, off := range []int{0, 1, p.W, p.W + 1} {
			t.place[j*stripLanes+i] = int32(2*lane + off)
		}
	}
}

// The passes over a strip.
const (
	stripPool = iota // forward; without dy and dx
	stripSums
	stripGrad
)

// pool is the forward pass over planes from number i of a batch on, where x, y and idx begin, with the factors of each.
func (t poolStrip) pool(p *pool.Shape, i int, f []pool.NormFactors, x, y []float32, idx []int32) {
	const most = 4096 // elements that stay in the L1 cache from one strip to the next
	in, out, step := p.H*p.W, p.OutH()*p.OutW(), len(f)
	if p.W > 2*stripLanes {
		step = max(1, most/in)
	}
	for j := 0; j < len(f); j += t.planes {
		t.planes = min(step, len(f)-j)
		for t.spill = spills(p, i+j+t.planes-1); !t.spill && t.planes > 1; t.spill = spills(p, i+j+t.planes-1) {
			t.planes--
		}
		t.factors = &f[j]
		runStrips(&t, stripPool, x[j*in:], y[j*out:], nil, idx[j*out:], nil)
	}
}

// runStrips calls the kernel of a pass for each strip of a plane, or forward of planes side by side, and adds up their results.
func runStrips[E float32 | uint16](t *poolStrip, pass int, x, y, dy []E, idx []int32, dx []E) (sum, dot float64) {
	columns := t.outStride / t.d.Size()
	for j := 0; j < columns; j += stripLanes {
		n := min(stripLanes, columns-j)
		if pass == stripPool && n < stripLanes && (j > 0 || t.spill) { // whole strips need no masks
			j, n = max(0, columns-stripLanes), stripLanes
		}
		t.from, t.x, t.y, t.idx = 2*j, unsafe.Pointer(&x[2*j]), unsafe.Pointer(&y[j]), &idx[j]
		if pass != stripPool {
			t.dy, t.dx = unsafe.Pointer(&dy[j]), unsafe.Pointer(&dx[2*j])
		}
		t.n, t.left, t.right = kernel.FirstOfEight(n), kernel.FirstOfEight(min(2*n, stripLanes)), kernel.FirstOfEight(max(2*n-stripLanes, 0))
		t.run(pass, n == stripLanes)
		sum += float64(t.sum)
		dot += float64(t.dot)
	}
	return sum, dot
}

// run calls a kernel: of a strip of 8 columns, or of fewer.
func (t *poolStrip) run(pass int, whole bool) {
	switch t.d {
	case tensor.F16:
		t.runF16(pass, whole)
	case tensor.BF16:
		t.runBF16(pass, whole)
	default:
		t.runF32(pass, whole)
	}
}

func (t *poolStrip) runF32(pass int, whole bool) {
	switch {
	case pass == stripPool && whole:
		vecStripPool(t)
	case pass == stripPool:
		vecStripPoolPart(t)
	case pass == stripSums && whole:
		vecStripSums(t)
	case pass == stripSums && t.unmasked:
		vecStripSumsPartUnmasked(t)
	case pass == stripSums:
		vecStripSumsPart(t)
	case whole:
		vecStripGrad(t)
	case t.unmasked:
		vecStripGradPartUnmasked(t)
	default:
		vecStripGradPart(t)
	}
}

func (t *poolStrip) runF16(pass int, whole bool) {
	switch {
	case pass == stripPool && whole:
		vecF16StripPool(t)
	case pass == stripPool:
		vecF16StripPoolPart(t)
	case pass == stripSums && whole:
		vecF16StripSums(t)
	case pass == stripSums:
		vecF16StripSumsPart(t)
	case whole:
		vecF16StripGrad(t)
	default:
		vecF16StripGradPart(t)
	}
}

func (t *poolStrip) runBF16(pass int, whole bool) {
	switch {
	case pass == stripPool && whole:
		vecBF16StripPool(t)
	case pass == stripPool:
		vecBF16StripPoolPart(t)
	case pass == stripSums && whole:
		vecBF16StripSums(t)
	case pass == stripSums:
		vecBF16StripSumsPart(t)
	case whole:
		vecBF16StripGrad(t)
	default:
		vecBF16StripGradPart(t)
	}
}
