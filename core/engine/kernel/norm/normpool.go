package norm

import (
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/pool"
	"github.com/trainctl/trainctl/core/engine/kernel/reduce"
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
	in, out := p.H*p.W, p.OutH()*p.OutW()
	fast := kernel.Is32[T]() && p.Halves()
	for i := range p.N * p.C {
		ch := i % p.C
		scale, shift := affine(ch, invstd, gamma, beta)
		px, py, pidx := x[i*in:][:in], y[i*out:][:out], idx[i*out:][:out]
		if fast && kernel.Wide() {
			pool.NormPlaneHalving(p, kernel.As32(px), float32(mean[ch]), float32(scale), float32(shift), kernel.As32(py), pidx)
			continue
		}
		plane := scratch[:in]
		if kernel.HasVectors[T]() {
			normReLUPlanes(1, in, px, nil, mean[ch:], []T{scale}, []T{shift}, plane)
		} else {
			normReLU(px, nil, mean[ch], scale, shift, plane)
		}
		if fast {
			pool.MaxPlaneHalving(p, kernel.As32(plane), kernel.As32(py), pidx)
		} else {
			pool.MaxPlane(p, plane, py, pidx)
		}
	}
}

// BatchNormReLUPoolScratch is the number of scratch elements of the forward pass.
func BatchNormReLUPoolScratch(p *pool.Shape) int { return p.H * p.W }

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
// nil, as gamma may). sums, if not nil, receives Σdx of each channel, which is
// the gradient of a bias added to x. dx may be x.
func BatchNormReLUPoolGrad[T kernel.Float](p *pool.Shape, x, y, dy []T, idx []int32, mean, invstd, gamma, dx, dgamma, dbeta, sums []T, accumulate bool) {
	BatchNormReLUPoolGradOf(0, p.C, p, x, y, dy, idx, mean, invstd, gamma, dx, dgamma, dbeta, sums, accumulate)
}

// BatchNormReLUPoolGradOf does so for the channels [lo, hi).
func BatchNormReLUPoolGradOf[T kernel.Float](lo, hi int, p *pool.Shape, x, y, dy []T, idx []int32, mean, invstd, gamma, dx, dgamma, dbeta, sums []T, accumulate bool) {
	g := poolGrad[T]{p: p, in: p.H * p.W, out: p.OutH() * p.OutW(), x: x, y: y, dy: dy, idx: idx, dx: dx}
	if kernel.Is32[T]() && spreads(p) {
		g.vectors = g.tile.set(p)
	}
	if g.inStrips = kernel.Is32[T]() && strips(p); g.inStrips {
		g.strip.set(p)
	}
	count := float64(p.N * g.in)
	for ch := lo; ch < hi; ch++ {
		sum, dot := g.sums(ch, mean[ch])
		storeGrad(dgamma, ch, dot*float64(invstd[ch]), accumulate)
		storeGrad(dbeta, ch, sum, accumulate)
		scale := invstd[ch]
		if gamma != nil {
			scale *= gamma[ch]
		}
		total := g.input(ch, mean[ch], T(sum/count), T(dot/count*float64(invstd[ch])*float64(invstd[ch])), scale)
		if sums != nil {
			sums[ch] = T(total)
		}
	}
}

// poolGrad is one backward pass.
type poolGrad[T kernel.Float] struct {
	p        *pool.Shape
	in, out  int // elements of a plane
	x, y, dy []T
	idx      []int32
	dx       []T
	vectors  int // of a run, 0 without vector kernels
	tile     poolGradTile
	inStrips bool
	strip    poolGradStrip
}

// plane points the tile at a plane.
func (g *poolGrad[T]) plane(x, y, dy []T, idx []int32, dx []T) *poolGradTile {
	t := &g.tile
	t.x, t.y, t.dy, t.idx, t.dx = &kernel.As32(x)[0], &kernel.As32(y)[0], &kernel.As32(dy)[0], &idx[0], &kernel.As32(dx)[0]
	return t
}

// sums adds up dy and dy·(x−mean) of a channel, where dy passes the ReLU.
func (g *poolGrad[T]) sums(ch int, mean T) (sum, dot float64) {
	g.tile.mean, g.strip.mean = float32(mean), float32(mean)
	for n := range g.p.N {
		i := n*g.p.C + ch
		x, y, dy, idx := g.x[i*g.in:][:g.in], g.y[i*g.out:][:g.out], g.dy[i*g.out:][:g.out], g.idx[i*g.out:][:g.out]
		if g.vectors > 0 {
			t := g.plane(x, y, dy, idx, x)
			normPoolSums(g.vectors, t)
			sum += float64(t.sum)
			dot += float64(t.dot)
			continue
		}
		if g.inStrips {
			s, d := g.strip.run(false, kernel.As32(x), kernel.As32(y), kernel.As32(dy), idx, kernel.As32(x))
			sum += s
			dot += d
			continue
		}
		for j, at := range idx {
			if !(y[j] <= 0) {
				sum += float64(dy[j])
				dot += float64(dy[j]) * (float64(x[at]) - float64(mean))
			}
		}
	}
	return sum, dot
}

// input writes dx = (dy − meanDy − (x−mean)·slope)·scale of a channel, with dy at
// the places of the maxima, and adds it up.
func (g *poolGrad[T]) input(ch int, mean, meanDy, slope, scale T) (sum float64) {
	g.tile.mean, g.tile.meanDy, g.tile.slope, g.tile.scale = float32(mean), float32(meanDy), float32(slope), float32(scale)
	g.strip.meanDy, g.strip.slope, g.strip.scale = float32(meanDy), float32(slope), float32(scale)
	for n := range g.p.N {
		i := n*g.p.C + ch
		x, y, dy, idx, dx := g.x[i*g.in:][:g.in], g.y[i*g.out:][:g.out], g.dy[i*g.out:][:g.out], g.idx[i*g.out:][:g.out], g.dx[i*g.in:][:g.in]
		if g.vectors > 0 {
			t := g.plane(x, y, dy, idx, dx)
			normPoolGrad(g.vectors, t)
			sum += float64(t.sum)
			continue
		}
		if g.inStrips {
			s, _ := g.strip.run(true, kernel.As32(x), kernel.As32(y), kernel.As32(dy), idx, kernel.As32(dx))
			sum += s
			continue
		}
		for j, v := range x {
			dx[j] = (-meanDy - T((v-mean)*slope)) * scale
		}
		for j, at := range idx {
			if !(y[j] <= 0) {
				dx[at] += dy[j] * scale
			}
		}
		sum += reduce.Sum64(dx)
	}
	return sum
}
