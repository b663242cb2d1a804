package norm

import (
	"math"

	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/pool"
	"github.com/trainctl/trainctl/core/engine/kernel/reduce"
	"github.com/trainctl/trainctl/core/tensor"
)

// Batch norm, ReLU and max pooling in one pass over memory each way. The
// normalised image exists in registers or in the L1 cache only. A maximum that
// is not positive passes no gradient, so the pooled output tells what ReLU lets
// through, and the places of the maxima say where to.

// BatchNormReLUPool computes y = maxpool(relu((x − mean)·invstd·gamma + beta)) of
// x [N, C, H, W] with the places of the maxima in each plane; gamma and beta may
// be nil. The scratch holds BatchNormReLUPoolScratch elements. Where y is 0 any
// place of the window may stand: no gradient passes there.
func BatchNormReLUPool[T kernel.Float](p *pool.Shape, x, mean, invstd, gamma, beta, y []T, idx []int32, scratch []T) {
	if kernel.Is32[T]() && (forwardStrips(p) || wideHalves(p)) {
		normPoolPlanes(p, kernel.As32(x), kernel.As32(mean), kernel.As32(invstd), kernel.As32(gamma), kernel.As32(beta), kernel.As32(y), idx)
		return
	}
	if kernel.HasVectors[T]() {
		normPoolBlocks(p, x, mean, invstd, gamma, beta, y, idx, scratch)
		return
	}
	in, out := p.H*p.W, p.OutH()*p.OutW()
	for i := range p.N * p.C {
		ch := i % p.C
		scale, shift := affine(ch, invstd, gamma, beta)
		normPoolPlane(p, x[i*in:][:in], mean[ch], scale, shift, y[i*out:][:out], idx[i*out:][:out], scratch)
	}
}

// wideHalves reports whether the kernel of wide registers fits.
func wideHalves(p *pool.Shape) bool { return p.Halves() && kernel.Wide() }

// normPoolPlanes is BatchNormReLUPool by kernels that take many planes in a call, with the factors of each.
func normPoolPlanes(p *pool.Shape, x, mean, invstd, gamma, beta, y []float32, idx []int32) {
	in, out, inStrips := p.H*p.W, p.OutH()*p.OutW(), forwardStrips(p)
	var room [applyChannels]pool.NormFactors
	var s poolStrip
	if inStrips {
		s.set(p, tensor.F32, 1)
	}
	for lo := 0; lo < p.C; lo += applyChannels {
		f := room[:min(applyChannels, p.C-lo)]
		for j := range f {
			scale, shift := affine(lo+j, invstd, gamma, beta)
			f[j] = pool.NormFactors{Mean: mean[lo+j], Scale: scale, Shift: shift}
		}
		for i := lo; i < p.N*p.C; i += p.C {
			if inStrips {
				s.pool(p, i, f, x[i*in:], y[i*out:], idx[i*out:])
			} else {
				pool.NormPlanesHalving(p, f, x[i*in:], y[i*out:], idx[i*out:])
			}
		}
	}
}

// normPoolPlane is the forward pass over a plane, whose normalised values it may leave in scratch.
func normPoolPlane[T kernel.Float](p *pool.Shape, x []T, mean, scale, shift T, y []T, idx []int32, scratch []T) {
	if kernel.Is32[T]() && wideHalves(p) {
		f := pool.NormFactors{Mean: float32(mean), Scale: float32(scale), Shift: float32(shift)}
		pool.NormPlanesHalving(p, []pool.NormFactors{f}, kernel.As32(x), kernel.As32(y), idx)
		return
	}
	normal, rest := scratch[:len(x)], scratch[len(x):]
	if kernel.HasVectors[T]() {
		normReLUPlanes(1, len(x), x, nil, []T{mean}, []T{scale}, []T{shift}, normal)
	} else {
		normReLU(x, nil, mean, scale, shift, normal)
	}
	pool.MaxPlanes(p, 1, normal, y, idx, rest)
}

// normPoolBlocks is BatchNormReLUPool of some planes of an image at a time, whose normalised values stay in the cache until they are pooled.
func normPoolBlocks[T kernel.Float](p *pool.Shape, x, mean, invstd, gamma, beta, y []T, idx []int32, scratch []T) {
	var scale, shift [applyChannels]T
	in, out, block := p.H*p.W, p.OutH()*p.OutW(), normalPlanes(p)
	normal, rest := scratch[:block*in], scratch[block*in:]
	for lo := 0; lo < p.C; lo += block {
		n := min(block, p.C-lo)
		affines(lo, lo+n, invstd, gamma, beta, scale[:], shift[:])
		for i := lo; i < p.N*p.C; i += p.C {
			normReLUPlanes(n, in, x[i*in:], nil, mean[lo:], scale[:], shift[:], normal)
			pool.MaxPlanes(p, n, normal[:n*in], y[i*out:][:n*out], idx[i*out:][:n*out], rest)
		}
	}
}

// normalPlanes is how many planes are normalised before they are pooled.
func normalPlanes(p *pool.Shape) int {
	const near = 16 << 10 // elements that stay in the L2 cache, beside the frames of pooling
	return max(1, min(p.C, applyChannels, near/(p.H*p.W)))
}

// BatchNormReLUPoolScratch is the number of scratch elements of the forward pass.
func BatchNormReLUPoolScratch(p *pool.Shape) int { return normalPlanes(p)*p.H*p.W + p.MaxScratch() }

func affine[T kernel.Float](ch int, invstd, gamma, beta []T) (scale, shift T) {
	scale = invstd[ch]
	if gamma != nil {
		scale *= gamma[ch]
	}
	if beta != nil {
		shift = beta[ch]
	}
	return scale, shift
}

// BatchNormReLUPoolGrad is the backward pass: from x, the pooled y and its
// gradient dy it overwrites dx, and writes or adds dgamma and dbeta (each may be
// nil, as gamma and beta may). sums, if not nil, receives Σdx of each channel, which is
// the gradient of a bias added to x. dx may be x. rounded says that y went through a
// narrower type.
func BatchNormReLUPoolGrad[T kernel.Float](p *pool.Shape, x, y, dy []T, rounded bool, idx []int32, mean, invstd, gamma, beta, dx, dgamma, dbeta, sums []T, accumulate bool) {
	BatchNormReLUPoolGradOf(0, p.C, p, x, y, dy, rounded, idx, mean, invstd, gamma, beta, dx, dgamma, dbeta, sums, accumulate)
}

// BatchNormReLUPoolGradOf does so for the channels [lo, hi).
func BatchNormReLUPoolGradOf[T kernel.Float](lo, hi int, p *pool.Shape, x, y, dy []T, rounded bool, idx []int32, mean, invstd, gamma, beta, dx, dgamma, dbeta, sums []T, accumulate bool) {
	g := newPoolGrad(p, x, y, dy, rounded, idx, dx)
	g.channels(lo, hi, mean, invstd, gamma, beta, dgamma, dbeta, sums, accumulate)
}

// BatchNormReLUPoolGradSums is the first half of BatchNormReLUPoolGrad, for some of the images of a batch: it writes each
// channel's Σdy and Σdy·(x−mean), where dy passes the ReLU.
func BatchNormReLUPoolGradSums[T kernel.Float](p *pool.Shape, x, y, dy []T, rounded bool, idx []int32, mean, invstd, gamma, beta []T, sums, dots []float64) {
	g := newPoolGrad(p, x, y, dy, rounded, idx, x) // sums write no dx
	g.prepare(1)
	for lo := 0; lo < p.C; lo += mostChannels {
		f := g.sums(lo, min(mostChannels, p.C-lo), mean, invstd, gamma, beta)
		copy(sums[lo:p.C], f.sums[:])
		copy(dots[lo:p.C], f.dots[:])
	}
}

// BatchNormReLUPoolGradInput is the second half: from the sums of count elements per channel, those of all images, it
// overwrites dx of some images, and totals with Σdx of each of their channels. dx may be x.
func BatchNormReLUPoolGradInput[T kernel.Float](p *pool.Shape, count float64, x, y, dy []T, rounded bool, idx []int32, mean, invstd, gamma, dx []T, sums, dots, totals []float64) {
	g := newPoolGrad(p, x, y, dy, rounded, idx, dx)
	g.prepare(1)
	for lo := 0; lo < p.C; lo += mostChannels {
		n := min(mostChannels, p.C-lo)
		var f poolFactors[T]
		copy(f.sums[:n], sums[lo:])
		copy(f.dots[:n], dots[lo:])
		f.derive(lo, n, count, invstd, gamma)
		t := g.input(lo, n, mean, &f)
		copy(totals[lo:p.C], t[:])
	}
}

func newPoolGrad[T kernel.Float](p *pool.Shape, x, y, dy []T, rounded bool, idx []int32, dx []T) poolGrad[T] {
	return poolGrad[T]{p: p, in: p.H * p.W, out: p.OutH() * p.OutW(), x: x, y: y, dy: dy, rounded: rounded, idx: idx, dx: dx}
}

// prepare chooses kernels, which prefetch planes so many ahead.
func (g *poolGrad[T]) prepare(ahead int) {
	if kernel.Is32[T]() && spreads(g.p) && !g.half.strips {
		g.vectors = g.tile.set(g.p)
	}
	if g.inStrips = kernel.Is32[T]() && strips(g.p); g.inStrips {
		g.strip.set(g.p, tensor.F32, ahead)
	}
}

// channels is the pass over the channels [lo, hi): many at a time, image by image, or as many as halfImages hold.
func (g *poolGrad[T]) channels(lo, hi int, mean, invstd, gamma, beta, dgamma, dbeta, sums []T, accumulate bool) {
	block, count, ahead := mostChannels, float64(g.p.N*g.in), 1
	if g.half.wideX != nil {
		ahead = 0 // what is widened is in the cache
		if block = halfBlock(g.p); g.half.strips {
			block = 1
		}
	}
	g.prepare(ahead)
	for ; lo < hi; lo += block {
		n := min(block, hi-lo)
		f := g.sums(lo, n, mean, invstd, gamma, beta)
		BatchNormGradAffine(lo, lo+n, f.sums[:], f.dots[:], invstd, dgamma, dbeta, accumulate)
		f.derive(lo, n, count, invstd, gamma)
		totals := g.input(lo, n, mean, &f)
		for j := range n {
			if sums != nil {
				sums[lo+j] = T(totals[j])
			}
		}
	}
}

// poolFactors are of some channels Σdy and Σdy·(x−mean), where dy passes the ReLU, and
// what follows from them.
type poolFactors[T kernel.Float] struct {
	sums, dots           [mostChannels]float64
	meanDy, slope, scale [mostChannels]T
}

// derive finds what follows from the sums over count elements of n channels from lo on.
func (f *poolFactors[T]) derive(lo, n int, count float64, invstd, gamma []T) {
	for j := range n {
		ch := lo + j
		f.scale[j], _ = affine(ch, invstd, gamma, nil)
		f.meanDy[j], f.slope[j] = T(f.sums[j]/count), T(f.dots[j]/count*float64(invstd[ch])*float64(invstd[ch]))
	}
}

// poolGrad is one backward pass.
type poolGrad[T kernel.Float] struct {
	p        *pool.Shape
	in, out  int // elements of a plane
	x, y, dy []T
	rounded  bool // y, to a narrower type
	idx      []int32
	dx       []T
	half     halfImages[T] // with room: instead of x, y, dy and dx
	vectors  int           // of a run, 0 without vector kernels
	tile     poolGradTile
	inStrips bool
	strip    poolStrip
}

// planes are those of channel lo+j of image n.
func (g *poolGrad[T]) planes(n, lo, j int) (x, y, dy []T, idx []int32, dx []T) {
	i := n*g.p.C + lo + j
	idx = g.idx[i*g.out:][:g.out]
	if g.half.wideX != nil {
		x, y, dy = g.half.planes(j)
		return x, y, dy, idx, x
	}
	return g.x[i*g.in:][:g.in], g.y[i*g.out:][:g.out], g.dy[i*g.out:][:g.out], idx, g.dx[i*g.in:][:g.in]
}

// unmasked reports whether kernels with registers of 8 lanes read up to the end of plane i without masks.
func (g *poolGrad[T]) unmasked(i int) bool {
	return kernel.Lanes() == stripLanes && g.half.wideX == nil && directStrips(g.p, i)
}

// widens reports whether float32's passes see the planes from number i on of a half type.
func (g *poolGrad[T]) widens(i int) bool {
	return g.half.wideX != nil && !(g.half.strips && directStrips(g.p, i))
}

// tileOf is a copy of the tile for planes that begin with one: the tile itself must not keep what is on a caller's stack.
func (g *poolGrad[T]) tileOf(x, y, dy []T, idx []int32, dx []T, each []poolPlane) poolGradTile {
	t := g.tile
	t.x, t.y, t.dy, t.idx, t.dx = kernel.Ptr32(x), kernel.Ptr32(y), kernel.Ptr32(dy), &idx[0], kernel.Ptr32(dx)
	t.planes, t.each = len(each), &each[0]
	return t
}

// sums are those of count channels from lo on.
func (g *poolGrad[T]) sums(lo, count int, mean, invstd, gamma, beta []T) (f poolFactors[T]) {
	known, all := g.sumsByOutput(lo, count, invstd, gamma, beta, &f)
	if all {
		return f
	}
	for n := range g.p.N {
		if g.widens(n*g.p.C + lo) {
			g.half.widen(n*g.p.C+lo, count)
		}
		for j := range count {
			if known[j] {
				continue
			}
			sum, dot := g.sumsPlane(n, lo, j, mean[lo+j])
			f.sums[j] += sum
			f.dots[j] += dot
		}
	}
	return f
}

// mostShift bounds beta against gamma where an output stands for its x: it loses that
// many times the rounding of a normalised x.
const mostShift = 8

// sumsByOutput finds the sums of channels without reading x: an output y that passes the ReLU is
// (x−mean)·scale + shift of its maximum. It tells for which channels, and whether that is all.
func (g *poolGrad[T]) sumsByOutput(lo, count int, invstd, gamma, beta []T, f *poolFactors[T]) (known [mostChannels]bool, all bool) {
	if g.rounded {
		return known, false
	}
	var scale, shift [mostChannels]T
	affines(lo, lo+count, invstd, gamma, beta, scale[:], shift[:])
	found := 0
	for j := range count {
		gain := 1.0
		if gamma != nil {
			gain = float64(gamma[lo+j])
		}
		if known[j] = scale[j] != 0 && math.Abs(float64(shift[j])) <= mostShift*math.Abs(gain); known[j] {
			found++
		}
	}
	if found == 0 {
		return known, false
	}
	for n := range g.p.N {
		at := (n*g.p.C + lo) * g.out
		planesSums(g.out, g.out, g.y[at:], g.y[at:], g.dy[at:], shift[:count], nil, f.sums[:], f.dots[:])
	}
	for j := range count {
		if f.dots[j] /= float64(scale[j]); !known[j] {
			f.sums[j], f.dots[j] = 0, 0
		}
	}
	return known, found == count
}

func (g *poolGrad[T]) sumsPlane(n, lo, j int, mean T) (sum, dot float64) {
	g.strip.mean, g.strip.unmasked = float32(mean), g.unmasked(n*g.p.C+lo+j)
	if h := &g.half; h.strips && !g.widens(n*g.p.C+lo) {
		h.strip.mean = float32(mean)
		return h.run(stripSums, n*g.p.C+lo+j, g.idx)
	}
	x, y, dy, idx, _ := g.planes(n, lo, j)
	switch {
	case g.vectors > 0:
		each := [1]poolPlane{{mean: float32(mean)}}
		t := g.tileOf(x, y, dy, idx, x, each[:])
		t.sums(g.vectors)
		return float64(each[0].sum), float64(each[0].dot)
	case g.inStrips:
		return runStrips(&g.strip, stripSums, kernel.As32(x), kernel.As32(y), kernel.As32(dy), idx, kernel.As32(x))
	}
	for j, at := range idx {
		if !(y[j] <= 0) {
			sum += float64(dy[j])
			dot += float64(dy[j]) * (float64(x[at]) - float64(mean))
		}
	}
	return sum, dot
}

// input writes dx = (dy − meanDy − (x−mean)·slope)·scale of count channels from lo on, with
// dy at the places of the maxima, and adds up each.
func (g *poolGrad[T]) input(lo, count int, mean []T, f *poolFactors[T]) (totals [mostChannels]float64) {
	var room [mostChannels]poolPlane
	each := room[:count]
	for j := range each {
		each[j] = poolPlane{mean: float32(mean[lo+j]), meanDy: float32(f.meanDy[j]), slope: float32(f.slope[j]), scale: float32(f.scale[j])}
	}
	for n := range g.p.N {
		widens := g.widens(n*g.p.C + lo)
		if widens {
			g.half.widen(n*g.p.C+lo, count)
		}
		if g.vectors > 0 {
			x, y, dy, idx, dx := g.planes(n, lo, 0)
			t := g.tileOf(x, y, dy, idx, dx, each)
			if g.unmasked(n*g.p.C + lo + count - 1) {
				t.n = 0
			}
			t.grad(g.vectors)
			for j := range each {
				totals[j] += float64(each[j].sum)
			}
		} else {
			for j := range count {
				totals[j] += g.inputPlane(n, lo, j, mean[lo+j], f.meanDy[j], f.slope[j], f.scale[j])
			}
		}
		if widens {
			g.half.round(n*g.p.C+lo, count)
		}
	}
	return totals
}

func (g *poolGrad[T]) inputPlane(n, lo, j int, mean, meanDy, slope, scale T) (sum float64) {
	s := &g.strip
	s.mean, s.shift, s.slope, s.scale = float32(mean), float32(meanDy), float32(slope), float32(scale)
	s.unmasked = g.unmasked(n*g.p.C + lo + j)
	if h := &g.half; h.strips && !g.widens(n*g.p.C+lo) {
		h.strip.mean, h.strip.shift, h.strip.slope, h.strip.scale = s.mean, s.shift, s.slope, s.scale
		sum, _ = h.run(stripGrad, n*g.p.C+lo+j, g.idx)
		return sum
	}
	x, y, dy, idx, dx := g.planes(n, lo, j)
	if g.inStrips {
		sum, _ = runStrips(s, stripGrad, kernel.As32(x), kernel.As32(y), kernel.As32(dy), idx, kernel.As32(dx))
		return sum
	}
	SubMulAdd(x, mean, -slope*scale, -meanDy*scale, dx)
	for j, at := range idx {
		if !(y[j] <= 0) {
			dx[at] += dy[j] * scale
		}
	}
	return reduce.Sum64(dx)
}
