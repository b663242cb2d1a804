package norm

import (
	"math"

	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/convert"
	"github.com/trainctl/trainctl/core/engine/kernel/pool"
	"github.com/trainctl/trainctl/core/tensor"
)

// Batch norm, ReLU and pooling of a half type at every level with vectors. With registers of 8
// lanes, kernels widen what they load and round what they store. AVX512-BF16 has kernels of its
// own (normpool_bf16.go). Otherwise a few planes are widened where they stay in the L1 cache, go
// through float32's passes, and what they write is rounded once.

// TakesHalfNormPool reports whether planes of this geometry go this way at the active level.
func TakesHalfNormPool(p *pool.Shape) bool {
	return TakesHalf(p.H*p.W) && p.Halves() && p.H%2 == 0 && p.W%2 == 0
}

// halfBlock is how many planes are widened at a time: they stay in the L1 cache, and those of
// all images in L2 for the second pass of backward.
func halfBlock(p *pool.Shape) int {
	return max(1, min(mostChannels, mostHalf/(p.H*p.W), 2*blockElems/(p.N*p.H*p.W)))
}

// HalfNormPoolScratch is the number of scratch elements of both passes, for any number of images.
func HalfNormPoolScratch(p *pool.Shape) int {
	return mostHalf/(p.H*p.W)*(p.H*p.W+2*p.OutH()*p.OutW()) + p.H*p.W
}

// BatchNormReLUPoolHalf is BatchNormReLUPool of images of half type d.
// scratch holds HalfNormPoolScratch elements.
func BatchNormReLUPoolHalf(d tensor.DType, p *pool.Shape, x []uint16, mean, invstd, gamma, beta []float32, y []uint16, idx []int32, scratch []float32) {
	in, out, planes := p.H*p.W, p.OutH()*p.OutW(), p.N*p.C
	normal, room := scratch[:in], scratch[in:]
	var (
		s poolStrip
		f pool.NormFactors
	)
	first := 0
	if strips(p) {
		s.set(p, d, 1)
		s.planes, s.factors = 1, &f
		for ; first < planes && directStrips(p, first); first++ {
			f.Mean = mean[first%p.C]
			f.Scale, f.Shift = affine(first%p.C, invstd, gamma, beta)
			runStrips(&s, stripPool, x[first*in:], y[first*out:], nil, idx[first*out:], nil)
		}
	}
	for i, block := first, mostHalf/in; i < planes; i += block {
		n := min(block, planes-i)
		wide, pooled := room[:n*in], room[n*in:][:n*out]
		convert.Widen(d, wide, tensor.Bytes(x[i*in:][:n*in]))
		for j := range n {
			ch := (i + j) % p.C
			scale, shift := affine(ch, invstd, gamma, beta)
			normPoolPlane(p, wide[j*in:][:in], mean[ch], scale, shift, pooled[j*out:][:out], idx[(i+j)*out:][:out], normal)
		}
		convert.Narrow(d, tensor.Bytes(y[i*out:][:n*out]), pooled)
	}
}

// BatchNormReLUPoolGradHalfOf is BatchNormReLUPoolGradOf of images of half type d; gradients of
// parameters and sums are float32. scratch holds HalfNormPoolScratch elements.
func BatchNormReLUPoolGradHalfOf(d tensor.DType, lo, hi int, p *pool.Shape, x, y, dy []uint16, idx []int32, mean, invstd, gamma []float32, dx []uint16, dgamma, dbeta, sums []float32, accumulate bool, scratch []float32) {
	in, out, block := p.H*p.W, p.OutH()*p.OutW(), halfBlock(p)
	half := halfImages[float32]{d: d, in: in, out: out, x: x, y: y, dy: dy, dx: dx, wideX: scratch[:block*in], wideY: scratch[block*in:][:block*out], grad: scratch[block*(in+out):][:block*out]}
	if half.strips = strips(p); half.strips {
		half.strip.set(p, d, p.C)
	}
	g := poolGrad[float32]{p: p, in: in, out: out, rounded: true, idx: idx, half: half}
	g.channels(lo, hi, mean, invstd, gamma, nil, dgamma, dbeta, sums, accumulate)
}

// halfImages are the tensors of a backward pass, of which float32's passes see some planes at a time.
type halfImages[T kernel.Float] struct {
	d                  tensor.DType
	in, out            int
	x, y, dy, dx       []uint16
	wideX, wideY, grad []T
	strips             bool // kernels read and write planes where they lie, as far as directStrips says
	strip              poolStrip
}

// run is a pass of those kernels over plane i.
func (h *halfImages[T]) run(pass, i int, idx []int32) (sum, dot float64) {
	return runStrips(&h.strip, pass, h.x[i*h.in:], h.y[i*h.out:], h.dy[i*h.out:], idx[i*h.out:], h.dx[i*h.in:])
}

// widen reads n planes of x, y and dy from number i on.
func (h *halfImages[T]) widen(i, n int) {
	convert.Widen(h.d, kernel.As32(h.wideX[:n*h.in]), tensor.Bytes(h.x[i*h.in:][:n*h.in]))
	convert.Widen(h.d, kernel.As32(h.wideY[:n*h.out]), tensor.Bytes(h.y[i*h.out:][:n*h.out]))
	convert.Widen(h.d, kernel.As32(h.grad[:n*h.out]), tensor.Bytes(h.dy[i*h.out:][:n*h.out]))
}

// planes are the j-th of them.
func (h *halfImages[T]) planes(j int) (x, y, dy []T) {
	return h.wideX[j*h.in:][:h.in], h.wideY[j*h.out:][:h.out], h.grad[j*h.out:][:h.out]
}

// round writes what stands in place of x to n planes of dx.
func (h *halfImages[T]) round(i, n int) {
	convert.Narrow(h.d, tensor.Bytes(h.dx[i*h.in:][:n*h.in]), kernel.As32(h.wideX[:n*h.in]))
}

// The rest is planes of bfloat16 by definition, for windows of any geometry.

// window is the part of output o's window that lies inside the plane.
func window(p *pool.Shape, o int) (h0, h1, w0, w1 int) {
	h0, w0 = o/p.OutW()*p.StrideH-p.PadH, o%p.OutW()*p.StrideW-p.PadW
	return max(h0, 0), min(h0+p.R, p.H), max(w0, 0), min(w0+p.S, p.W)
}

// normPoolPlaneBF16 is the forward pass over a plane: of equals the first wins, and a
// NaN over everything.
func normPoolPlaneBF16(p *pool.Shape, x []uint16, mean, scale, shift float32, y []uint16, idx []int32) {
	for o := range y {
		h0, h1, w0, w1 := window(p, o)
		best, at := float32(math.Inf(-1)), h0*p.W+w0
		for h := h0; h < h1; h++ {
			for w := w0; w < w1; w++ {
				v := float32((tensor.F32FromBF16(x[h*p.W+w])-mean)*scale) + shift
				if v < 0 {
					v = 0
				}
				if v > best || v != v {
					best, at = v, h*p.W+w
				}
			}
		}
		y[o], idx[o] = kernel.RoundBF16(best), int32(at)
	}
}

// poolSumsBF16 is Σdy and Σdy·(x−mean) of plane i, where dy passes the ReLU.
func poolSumsBF16(p *pool.Shape, i int, x, y, dy []uint16, idx []int32, mean float32) (sum, dot float64) {
	in, out := p.H*p.W, p.OutH()*p.OutW()
	for o, at := range idx[i*out:][:out] {
		if tensor.F32FromBF16(y[i*out+o]) <= 0 {
			continue
		}
		d := float64(tensor.F32FromBF16(dy[i*out+o]))
		sum += d
		dot += d * (float64(tensor.F32FromBF16(x[i*in+int(at)])) - float64(mean))
	}
	return sum, dot
}

// poolInputBF16 writes dx = dy·scale + x·slope + offset of plane i, with dy at the
// places of the maxima, and adds it up.
func poolInputBF16(p *pool.Shape, i int, x, y, dy []uint16, idx []int32, scale, slope, offset float32, dx []uint16) (sum float64) {
	in, out := p.H*p.W, p.OutH()*p.OutW()
	y, dy, idx = y[i*out:][:out], dy[i*out:][:out], idx[i*out:][:out]
	for at := range in {
		v := tensor.F32FromBF16(x[i*in+at])*slope + offset
		v += pooledGrad(p, at, y, dy, idx) * scale
		dx[i*in+at] = kernel.RoundBF16(v)
		sum += float64(v)
	}
	return sum
}

// pooledGrad is what the outputs whose maximum is at a place pass to it.
func pooledGrad(p *pool.Shape, at int, y, dy []uint16, idx []int32) (sum float32) {
	h, w := at/p.W+p.PadH, at%p.W+p.PadW
	for i := max(0, kernel.CeilDiv(h-p.R+1, p.StrideH)); i <= min(h/p.StrideH, p.OutH()-1); i++ {
		for j := max(0, kernel.CeilDiv(w-p.S+1, p.StrideW)); j <= min(w/p.StrideW, p.OutW()-1); j++ {
			o := i*p.OutW() + j
			if idx[o] == int32(at) && !(tensor.F32FromBF16(y[o]) <= 0) {
				sum += tensor.F32FromBF16(dy[o])
			}
		}
	}
	return sum
}
