package planes

import (
	"unsafe"

	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/cost"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/geometry"
	"github.com/trainctl/trainctl/core/engine/kernel/elementwise"
	"github.com/trainctl/trainctl/core/engine/kernel/gemm"
)

// across is a depthwise convolution whose filter reaches across the plane: every output sees every input, as with
// filters of 7×7 over planes of 4×4. A filter is then a matrix of one weight for each pair of pixels, and the planes of a channel
// in all images are the rows of another. No products with zeros are left: of the 49 per output that
// the definition of that example counts, 16 are multiplied.
type across struct {
	p          geometry.Shape
	in, out    int     // pixels of a plane of x, and of y
	taps       []int32 // of each pair of pixels, [in][out]
	w, sums    []float32
	room       []float32 // of gemm
	multiplier int       // planes of y for each of x
}

// reachesAcross reports whether every output of a depthwise convolution sees every input.
func reachesAcross(p *geometry.Shape) bool {
	along := func(in, out, stride, pad, taps, dil int) bool {
		return pad >= (out-1)*stride && in-1+pad < taps && (dil == 1 || taps == 1)
	}
	return p.Depthwise() && along(p.H, p.OutH(), p.StrideH, p.PadH, p.R, p.DilationH()) && along(p.W, p.OutW(), p.StrideW, p.PadW, p.S, p.DilationW())
}

// acrossPairs is how many pairs of pixels there are.
func acrossPairs(p *geometry.Shape) int { return p.H * p.W * p.OutH() * p.OutW() }

// acrossScratch is the number of scratch elements of all directions.
func acrossScratch(p *geometry.Shape) int {
	in, out := p.H*p.W, p.OutH()*p.OutW()
	return 3*in*out + max(gemm.GemmScratch(p.N, out, in), gemm.GemmScratch(p.N, in, out), gemm.GemmScratch(in, out, p.N))
}

func newAcross(p *geometry.Shape, scratch []float32) across {
	n := acrossPairs(p)
	a := across{p: *p, in: p.H * p.W, out: p.OutH() * p.OutW(), multiplier: p.K / p.C, sums: scratch[n:][:n], w: scratch[2*n:][:n], room: scratch[3*n:]}
	a.taps = unsafe.Slice((*int32)(unsafe.Pointer(&scratch[0])), n)
	ow, next := p.OutW(), 0
	for pixel := range a.in {
		j, k := pixel/p.W+p.PadH, pixel%p.W+p.PadW
		for i := range p.OutH() {
			tap := (j-i*p.StrideH)*p.S + k
			for range ow {
				a.taps[next] = int32(tap)
				next, tap = next+1, tap-p.StrideW
			}
		}
	}
	return a
}

// spread writes the weights of filter k to their pairs of pixels.
func (a *across) spread(k int, w []float32) {
	taps := a.p.R * a.p.S
	w = w[k*taps:][:taps]
	for i, tap := range a.taps {
		a.w[i] = w[tap]
	}
}

// forward is Forward.
func (a *across) forward(x, w, bias, y []float32) {
	p := &a.p
	for k := range p.K {
		a.spread(k, w)
		var f gemm.Finish[float32]
		if bias != nil {
			f.Bias = a.sums[:a.out]
			elementwise.Fill(f.Bias, bias[k])
		}
		gemm.GemmFinish(false, false, p.N, a.out, a.in, 1, x[k/a.multiplier*a.in:], p.C*a.in, a.w, a.out, 0, y[k*a.out:], p.K*a.out, f, a.room)
	}
}

// gradInput is GradInput.
func (a *across) gradInput(dy, w, dx []float32) {
	p := &a.p
	for k := range p.K {
		a.spread(k, w)
		var add float32
		if k%a.multiplier > 0 {
			add = 1
		}
		gemm.Gemm(false, true, p.N, a.in, a.out, 1, dy[k*a.out:], p.K*a.out, a.w, a.out, add, dx[k/a.multiplier*a.in:], p.C*a.in, a.room)
	}
}

// gradWeight is GradWeight.
func (a *across) gradWeight(x, dy, dw []float32, accumulate bool) {
	p, taps := &a.p, a.p.R*a.p.S
	for k := range p.K {
		gemm.Gemm(true, false, a.in, a.out, p.N, 1, x[k/a.multiplier*a.in:], p.C*a.in, dy[k*a.out:], p.K*a.out, 0, a.sums, a.out, a.room)
		to := dw[k*taps:][:taps]
		if !accumulate {
			clear(to)
		}
		for i, tap := range a.taps {
			to[tap] += a.sums[i]
		}
	}
}

// acrossTerms counts what a direction does. Matrices are so small that a filter takes about as long for any number of columns.
func acrossTerms(p *geometry.Shape) (t cost.Terms) {
	filters := float64(p.K)
	t[filterCalls], t[spread] = filters, filters*float64(acrossPairs(p))
	t[acrossVectors] = filters * float64(p.N*(p.H*p.W+p.OutH()*p.OutW())) / kernel.Block
	return t
}
