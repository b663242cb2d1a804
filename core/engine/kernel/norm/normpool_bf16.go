package norm

import (
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/pool"
	"github.com/trainctl/trainctl/core/tensor"
)

// Batch norm, ReLU and 2×2 max pooling of bfloat16 planes in the passes of
// normpool.go. Statistics and what is per channel stay float32.

// FastPoolBF16 reports whether they have vector kernels for this geometry at the active
// level. Without them, widening to float32 is faster.
func FastPoolBF16(p *pool.Shape) bool {
	return kernel.HasBF16() && p.Halves() && p.H%2 == 0 && p.W%2 == 0 && p.H >= 4 && p.W <= 2*kernel.Block
}

// rowsAtOnce is 2 for planes of which two rows fit into a vector of pairs.
func rowsAtOnce(p *pool.Shape) int {
	if p.W <= kernel.Block {
		return 2
	}
	return 1
}

// halfNormPool is a call of the forward kernel over a plane. The layout is known to gen/norm/bf16_normpool.go.
type halfNormPool struct {
	rows               int // of outputs, or pairs of them
	x                  *uint16
	stride, second     int // bytes between rows of outputs in x, and to the second load
	y                  *uint16
	idx                *int32
	out                int         // bytes between rows of y
	load, store        kernel.Mask // pairs of pixels; outputs
	last               int         // 1 if an odd row of outputs is left
	lastStore          kernel.Mask
	mean, scale, shift float32
	sign               uint32              // turns the sign of both pixels of a pair, for a negative scale
	width              int32               // of the plane
	base               [kernel.Block]int32 // place of each window
	next               int32               // how much base grows
	upper, lower       [kernel.Block]int32 // windows' pairs in the two loads
}

// momentsBF16 are those of a plane. The plane to come is so many elements ahead.
func momentsBF16(x []uint16, ahead int) moments {
	n := len(x)
	share := 1 / float64(n)
	if !vectorsBF16(n) {
		var sum, square float64
		for _, h := range x {
			sum += float64(tensor.F32FromBF16(h))
		}
		mean := sum * share
		for _, h := range x {
			d := float64(tensor.F32FromBF16(h)) - mean
			square += d * d
		}
		return moments{mean, square}
	}
	near, diff, square := vecHalfMoments(&x[0], n/kernel.PairLanes, kernel.FirstLanes(n%kernel.PairLanes/2), float32(share), ahead)
	d := float64(diff)
	return moments{float64(near) + d*share, float64(square) - d*d*share}
}

// BatchNormStatsBF16Of is BatchNormStatsOf of bfloat16 planes.
func BatchNormStatsBF16Of(lo, hi, n, c, hw int, x []uint16, mean, variance []float32) {
	if kernel.HasBF16() && inPixels[float32](n, hw) {
		halfPixelStats(tensor.BF16, lo, hi, n, c, hw, x, mean, variance)
		return
	}
	channelMoments(lo, hi, n, c, hw, 1, func(at, _ int, _ bool, _ float64) moments { return momentsBF16(x[at:][:hw], c*hw) }, mean, variance)
}

// BatchNormReLUPoolBF16 is BatchNormReLUPool of bfloat16 images, rounded once.
func BatchNormReLUPoolBF16(p *pool.Shape, x []uint16, mean, invstd, gamma, beta []float32, y []uint16, idx []int32) {
	in, out := p.H*p.W, p.OutH()*p.OutW()
	if !FastPoolBF16(p) {
		for i := range p.N * p.C {
			scale, shift := affine(i%p.C, invstd, gamma, beta)
			normPoolPlaneBF16(p, x[i*in:][:in], mean[i%p.C], scale, shift, y[i*out:][:out], idx[i*out:][:out])
		}
		return
	}
	var t halfNormPool
	t.set(p)
	for i := range p.N * p.C {
		scale, shift := affine(i%p.C, invstd, gamma, beta)
		t.x, t.y, t.idx = &x[i*in:][:in][0], &y[i*out:][:out][0], &idx[i*out:][:out][0]
		t.mean, t.scale, t.shift, t.sign = mean[i%p.C], scale, shift, 0
		if scale < 0 {
			t.mean, t.scale, t.sign = -t.mean, -scale, 0x80008000
		}
		t.last = p.OutH() % rowsAtOnce(p)
		runHalfNormPool(rowsAtOnce(p), &t)
	}
}

// set prepares everything but the plane.
func (t *halfNormPool) set(p *pool.Shape) {
	at, w := rowsAtOnce(p), p.W
	half := w / 2
	t.rows, t.stride, t.second, t.out = p.OutH()/at, 4*w*at, 2*w*at, w*at
	t.load, t.store, t.lastStore = kernel.FirstLanes(half*at), kernel.FirstLanes(half*at), kernel.FirstLanes(half)
	t.width, t.next = int32(w), int32(2*w*at)
	for i := range half * at {
		row, col := i/half, i%half
		t.base[i] = int32(2*w*row + 2*col)
		t.upper[i], t.lower[i] = int32(kernel.Block*row+col), int32(kernel.Block*row+half+col)
	}
}

// halfNormPoolGrad is a call of the backward kernels over a plane. The layout is known to gen/norm/bf16_normpool.go.
type halfNormPoolGrad struct {
	rows                       int // of outputs
	x                          *uint16
	stride, second             int // bytes between rows of outputs in x, and to the second load
	y, dy                      *uint16
	idx                        *int32
	out                        int         // bytes between rows of y and dy
	load, n                    kernel.Mask // pairs of pixels in a load; outputs in a row
	dx                         *uint16
	mean, slope, offset, scale float32
	width                      int32 // of the plane
	next                       int32 // places from one row of outputs to the next
	sum, dot                   float32
	lane                       [kernel.Block]int32 // output above each pair, if a load has two rows
	place                      [kernel.Block]int32 // of each pair's left pixel
}

// set prepares everything but the plane.
func (t *halfNormPoolGrad) set(p *pool.Shape) {
	at, w := rowsAtOnce(p), p.W
	half := w / 2
	t.rows, t.stride, t.second, t.out = p.OutH(), 4*w, 2*w, w
	t.load, t.n = kernel.FirstLanes(half*at), kernel.FirstLanes(half)
	t.width, t.next = int32(w), int32(2*w)
	for i := range kernel.Block {
		t.lane[i] = kernel.Block - 1 // of a row of at most 8: no gradient
		if i < half*at {
			t.lane[i], t.place[i] = int32(i%half), int32(i/half*w+2*(i%half))
		}
	}
}

// BatchNormReLUPoolGradBF16Of is BatchNormReLUPoolGradOf of bfloat16 images; dx is
// rounded once, all else is float32.
func BatchNormReLUPoolGradBF16Of(lo, hi int, p *pool.Shape, x, y, dy []uint16, idx []int32, mean, invstd, gamma []float32, dx []uint16, dgamma, dbeta, sums []float32, accumulate bool) {
	fast := FastPoolBF16(p)
	var t halfNormPoolGrad
	if fast {
		t.set(p)
	}
	count := float64(p.N * p.H * p.W)
	for ch := lo; ch < hi; ch++ {
		var sum, dot, total float64
		t.mean = mean[ch]
		for n := range p.N {
			if !fast {
				a, b := poolSumsBF16(p, n*p.C+ch, x, y, dy, idx, mean[ch])
				sum, dot = sum+a, dot+b
				continue
			}
			t.plane(p, n*p.C+ch, x, y, dy, idx, dx)
			runHalfNormPoolSums(rowsAtOnce(p), &t)
			sum += float64(t.sum)
			dot += float64(t.dot)
		}
		storeGrad(dgamma, ch, dot*float64(invstd[ch]), accumulate)
		storeGrad(dbeta, ch, sum, accumulate)
		t.scale, t.slope, t.offset = normSlope(count, sum, dot, mean[ch], invstd[ch], gamma, ch)
		for n := range p.N {
			if !fast {
				total += poolInputBF16(p, n*p.C+ch, x, y, dy, idx, t.scale, t.slope, t.offset, dx)
				continue
			}
			t.plane(p, n*p.C+ch, x, y, dy, idx, dx)
			runHalfNormPoolGrad(rowsAtOnce(p), &t)
			total += float64(t.sum)
		}
		if sums != nil {
			sums[ch] = float32(total)
		}
	}
}

// plane points the kernel at plane i.
func (t *halfNormPoolGrad) plane(p *pool.Shape, i int, x, y, dy []uint16, idx []int32, dx []uint16) {
	in, out := p.H*p.W, p.OutH()*p.OutW()
	t.x, t.dx = &x[i*in:][:in][0], &dx[i*in:][:in][0]
	t.y, t.dy, t.idx = &y[i*out:][:out][0], &dy[i*out:][:out][0], &idx[i*out:][:out][0]
}
