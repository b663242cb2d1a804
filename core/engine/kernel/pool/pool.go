package pool

import (
	"math"

	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/pool/adaptive"
)

// Shape is the geometry of two-dimensional pooling over [N, C, H, W] with an R×S window.
type Shape struct {
	N, C, H, W, R, S, StrideH, StrideW, PadH, PadW int
	CeilMode, CountIncludePad                      bool

	overlap  *overlap  // after Prepare, if vector kernels fit
	separate *separate // after Prepare, if these fit and windows do not overlap
}

// global reports whether there is one window, the whole plane.
func (p *Shape) global() bool { return p.R == p.H && p.S == p.W && p.PadH+p.PadW == 0 }

// tiles reports whether windows neither overlap nor leave gaps or hang over.
func (p *Shape) tiles() bool {
	return p.StrideH == p.R && p.StrideW == p.S && p.PadH+p.PadW == 0 && p.OutH()*p.R <= p.H && p.OutW()*p.S <= p.W
}

// apart reports whether vector kernels pool windows that do not overlap.
func (p *Shape) apart() bool { return p.separate != nil && p.separate.places != nil }

// Prepare makes the tables for vector kernels, if there are any for this geometry. Without
// them, plain Go pools.
func (p *Shape) Prepare() {
	p.separate, p.overlap = newSeparate(p), nil
	if p.separate == nil && !p.global() {
		p.overlap = newOverlap(p)
	}
}

// MaxScratch is how many elements MaxPool2D needs.
func (p *Shape) MaxScratch() int {
	if p.overlap == nil {
		return 0
	}
	return p.overlap.maxScratch()
}

// MaxGradScratch is how many elements MaxPool2DGrad needs.
func (p *Shape) MaxGradScratch() int {
	if !p.sends() {
		return 0
	}
	return p.overlap.maxGradScratch()
}

// Scratch is how many elements AvgPool2D needs.
func (p *Shape) Scratch() int {
	if p.overlap == nil {
		return 0
	}
	return p.overlap.meanScratch()
}

// GradScratch is how many elements AvgPool2DGrad needs.
func (p *Shape) GradScratch() int {
	if !p.spreads() {
		return p.W
	}
	return max(p.W, p.overlap.meanGradScratch())
}

// spreads reports whether vector kernels compute the gradient of overlapping means, sends that of maxima.
func (p *Shape) spreads() bool { return p.overlap != nil && p.overlap.rowTaps != nil }
func (p *Shape) sends() bool   { return p.overlap != nil && p.overlap.sent != nil }

// OutH is the height of the output.
func (p *Shape) OutH() int { return poolOut(p.H, p.R, p.StrideH, p.PadH, p.CeilMode) }

// OutW is the width of the output.
func (p *Shape) OutW() int { return poolOut(p.W, p.S, p.StrideW, p.PadW, p.CeilMode) }

// poolOut is PyTorch's rule (aten/src/ATen/native/Pool.h): with ceil, a last
// window may hang over the end, but has to start inside the input or its left padding.
func poolOut(in, kernel, stride, pad int, ceil bool) int {
	span := in + 2*pad - kernel
	if !ceil {
		return span/stride + 1
	}
	out := (span+stride-1)/stride + 1
	if (out-1)*stride >= in+pad {
		out--
	}
	return out
}

// MaxPool2D writes each window's maximum to y and its place in the H×W plane to
// idx. The first of equals wins; a NaN wins over everything. The scratch holds p.MaxScratch elements.
func MaxPool2D[T kernel.Float](p *Shape, x, y []T, idx []int32, scratch []T) {
	MaxPlanes(p, p.N*p.C, x, y, idx, scratch)
}

// MaxPlanes is MaxPool2D of so many planes, at most p.N·p.C.
func MaxPlanes[T kernel.Float](p *Shape, planes int, x, y []T, idx []int32, scratch []T) {
	switch {
	case kernel.Is32[T]() && p.Halves() && !(p.apart() && (p.separate.lanes < kernel.Lanes() || !kernel.Wide())): // those take vectors of half as many for short rows, and no masked loads
		maxPlanesHalving(p, planes, kernel.As32(x), kernel.As32(y), idx)
		return
	case kernel.Is32[T]() && p.separate != nil && p.separate.spans():
		p.separate.maxSpans(planes, kernel.As32(x), kernel.As32(y), idx, func(in, out, row int) {
			maxRow(p, row, x[in:], y[out:], idx[out:])
		})
		return
	case kernel.Is32[T]() && p.apart():
		p.eachRow(p.separate.max(planes, kernel.As32(x), kernel.As32(y), idx), planes, func(in, out, row int) {
			maxRow(p, row, x[in:], y[out:], idx[out:])
		})
		return
	case kernel.Is32[T]() && p.overlap != nil:
		p.overlap.max(planes, kernel.As32(x), kernel.As32(y), idx, kernel.As32(scratch))
		return
	}
	p.eachRow(0, planes, func(in, out, row int) { maxRow(p, row, x[in:], y[out:], idx[out:]) })
}

// maxRow is row i of a plane's maxima.
func maxRow[T kernel.Float](p *Shape, i int, x, y []T, idx []int32) {
	h0 := i*p.StrideH - p.PadH
	h1 := min(h0+p.R, p.H)
	h0 = max(h0, 0)
	for j := range p.OutW() {
		w0 := j*p.StrideW - p.PadW
		w1 := min(w0+p.S, p.W)
		w0 = max(w0, 0)
		best, at := T(math.Inf(-1)), h0*p.W+w0
		for h := h0; h < h1; h++ {
			for w := w0; w < w1; w++ {
				if v := x[h*p.W+w]; v > best || v != v {
					best, at = v, h*p.W+w
				}
			}
		}
		y[j], idx[j] = best, int32(at)
	}
}

// eachRow calls f for every row of outputs from first on, with the places of its planes in x and of itself in y.
func (p *Shape) eachRow(first, planes int, f func(in, out, row int)) {
	oh, ow := p.OutH(), p.OutW()
	for at := first; at < planes*oh; at++ {
		f(at/oh*p.H*p.W, at*ow, at%oh)
	}
}

// MaxPool2DGrad sends each dy to the place that idx names, and overwrites dx. The scratch holds p.MaxGradScratch elements.
func MaxPool2DGrad[T kernel.Float](p *Shape, dy []T, idx []int32, dx, scratch []T) {
	planes := p.N * p.C
	switch {
	case kernel.Is32[T]() && p.separate != nil:
		p.eachRow(p.separate.maxGrad(planes, kernel.As32(dy), idx, kernel.As32(dx)), planes, func(in, out, row int) {
			clear(unseen(p, dx[in:], row))
			scatter(dx[in:], dy[out:], idx[out:][:p.OutW()])
		})
		return
	case kernel.Is32[T]() && p.sends():
		p.overlap.maxGrad(planes, kernel.As32(dy), idx, kernel.As32(dx), kernel.As32(scratch))
		return
	}
	in, out := p.H*p.W, p.OutH()*p.OutW()
	for i := range planes {
		d := dx[i*in:][:in]
		clear(d)
		scatter(d, dy[i*out:], idx[i*out:][:out])
	}
}

// scatter adds each of dy to the place that idx names.
func scatter[T kernel.Float](dx, dy []T, idx []int32) {
	dy = dy[:len(idx)]
	for j, at := range idx {
		dx[at] += dy[j]
	}
}

// unseen is what a row of windows, and behind the last one the rest of the plane, has of a plane and the row before has not.
func unseen[T kernel.Float](p *Shape, plane []T, row int) []T {
	end := func(row int) int { return p.W * max(0, min(row*p.StrideH-p.PadH+p.R, p.H)) }
	from, to := 0, end(row)
	if row > 0 {
		from = end(row - 1)
	}
	if row == p.OutH()-1 {
		to = p.H * p.W
	}
	return plane[from:to]
}

// AvgPool2D writes each window's mean to y; CountIncludePad counts padding in the divisor. The scratch
// holds p.Scratch elements.
func AvgPool2D[T kernel.Float](p *Shape, x, y, scratch []T) {
	planes, first := p.N*p.C, 0
	switch {
	case p.global():
		adaptive.AvgPool2D(p.N, p.C, p.H, p.W, 1, 1, x, y, nil)
		return
	case kernel.Is32[T]() && p.apart():
		first = p.separate.mean(planes, kernel.As32(x), kernel.As32(y))
	case kernel.Is32[T]() && p.overlap != nil:
		p.overlap.mean(planes, kernel.As32(x), kernel.As32(y), kernel.As32(scratch))
		return
	}
	p.eachRow(first, planes, func(in, out, row int) { meanRow(p, row, x[in:], y[out:]) })
}

// meanRow is row i of a plane's means. Windows that overlap add up rows first, which they share.
func meanRow[T kernel.Float](p *Shape, i int, x, y []T) {
	mean := meanOfRows[T]
	if p.tiles() {
		mean = windowMean[T]
	}
	p.eachWindow(i, func(o, h0, h1, w0, w1, count int) { y[o] = mean(x, p.W, h0, h1, w0, w1, count) })
}

// AvgPool2DGrad spreads each dy over its window, and overwrites dx. The scratch holds p.GradScratch elements.
func AvgPool2DGrad[T kernel.Float](p *Shape, dy, dx, scratch []T) {
	planes, first := p.N*p.C, 0
	switch {
	case p.global():
		adaptive.AvgPool2DGrad(p.N, p.C, p.H, p.W, 1, 1, dy, dx, nil)
		return
	case kernel.Is32[T]() && p.separate != nil:
		first = p.separate.meanGrad(planes, kernel.As32(dy), kernel.As32(dx))
	case kernel.Is32[T]() && p.spreads():
		p.overlap.meanGrad(planes, kernel.As32(dy), kernel.As32(dx), kernel.As32(scratch))
		return
	}
	tiles := p.tiles()
	p.eachRow(first, planes, func(in, out, row int) {
		d, g, line := dx[in:], dy[out:], scratch[:p.W]
		clear(unseen(p, d, row))
		clear(line)
		h0 := row*p.StrideH - p.PadH
		p.eachWindow(row, func(o, _, _, w0, w1, count int) {
			share := g[o] * (1 / T(count))
			if tiles {
				share = g[o] / T(count)
			}
			windowAdd(line, p.W, 0, 1, w0, w1, share)
		})
		for h := max(h0, 0); h < min(h0+p.R, p.H); h++ {
			to := d[h*p.W:][:p.W]
			for w, v := range line {
				to[w] += v
			}
		}
	})
}

// eachWindow calls f for each output of a row with its window inside the input and its divisor (at least 1).
func (p *Shape) eachWindow(row int, f func(o, h0, h1, w0, w1, count int)) {
	h0 := row*p.StrideH - p.PadH
	h1 := min(h0+p.R, p.H+p.PadH)
	for j := range p.OutW() {
		w0 := j*p.StrideW - p.PadW
		w1 := min(w0+p.S, p.W+p.PadW)
		a, b, c, d := max(h0, 0), min(h1, p.H), max(w0, 0), min(w1, p.W)
		count := (b - a) * (d - c)
		if p.CountIncludePad {
			count = (h1 - h0) * (w1 - w0)
		}
		f(j, a, b, c, d, max(count, 1))
	}
}

func windowSum[T kernel.Float](x []T, width, h0, h1, w0, w1 int) (sum T) {
	for h := h0; h < h1; h++ {
		for w := w0; w < w1; w++ {
			sum += x[h*width+w]
		}
	}
	return sum
}

func windowMean[T kernel.Float](x []T, width, h0, h1, w0, w1, count int) T {
	return windowSum(x, width, h0, h1, w0, w1) / T(count)
}

// meanOfRows is the mean as windows that overlap have it: from the sums of rows, which they share.
func meanOfRows[T kernel.Float](x []T, width, h0, h1, w0, w1, count int) (sum T) {
	for h := h0; h < h1; h++ {
		sum += windowSum(x, width, h, h+1, w0, w1)
	}
	return sum * (1 / T(count))
}

func windowAdd[T kernel.Float](x []T, width, h0, h1, w0, w1 int, v T) {
	for h := h0; h < h1; h++ {
		for w := w0; w < w1; w++ {
			x[h*width+w] += v
		}
	}
}
