package norm

import (
	"math"

	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/pool"
	"github.com/trainctl/trainctl/core/tensor"
)

// Batch norm, ReLU and pooling of bfloat16 planes by definition, for windows of any
// geometry.

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
