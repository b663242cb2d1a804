package pool

import (
	"math"

	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/elementwise"
)

// Shape is the geometry of two-dimensional pooling over [N, C, H, W] with an R×S window.
type Shape struct {
	N, C, H, W, R, S, StrideH, StrideW, PadH, PadW int
	CeilMode, CountIncludePad                      bool

	windows  *windows  // after Prepare, if vector kernels fit
	separate *separate // after Prepare, if these fit and windows do not overlap
}

// global reports whether there is one window, the whole plane.
func (p *Shape) global() bool { return p.R == p.H && p.S == p.W && p.PadH+p.PadW == 0 }

// apart reports whether vector kernels pool windows that do not overlap.
func (p *Shape) apart() bool { return p.separate != nil && p.separate.places != nil }

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
	planes := p.N * p.C
	switch {
	case kernel.Is32[T]() && p.Halves():
		maxPlanesHalving(p, planes, kernel.As32(x), kernel.As32(y), idx)
		return
	case kernel.Is32[T]() && p.apart():
		p.eachRow(p.separate.max(planes, kernel.As32(x), kernel.As32(y), idx), planes, func(in, out, row int) {
			maxRow(p, row, x[in:], y[out:], idx[out:])
		})
		return
	}
	if kernel.Is32[T]() && p.separate != nil {
		p.separate.maxSpans(planes, kernel.As32(x), kernel.As32(y), idx)
		return
	}
	in, out := p.H*p.W, p.OutH()*p.OutW()
	for i := range planes {
		MaxPlane(p, x[i*in:][:in], y[i*out:][:out], idx[i*out:][:out], scratch)
	}
}

// MaxPlane is MaxPool2D of one plane.
func MaxPlane[T kernel.Float](p *Shape, x, y []T, idx []int32, scratch []T) {
	switch {
	case kernel.Is32[T]() && p.Halves():
		maxPlanesHalving(p, 1, kernel.As32(x), kernel.As32(y), idx)
		return
	case kernel.Is32[T]() && p.windows != nil:
		p.windows.max(kernel.As32(x), kernel.As32(y), idx, kernel.As32(scratch))
		return
	}
	ow := p.OutW()
	for i := range p.OutH() {
		maxRow(p, i, x, y[i*ow:], idx[i*ow:])
	}
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

// MaxPool2DGrad sends each dy to the place that idx names, and overwrites dx.
func MaxPool2DGrad[T kernel.Float](p *Shape, dy []T, idx []int32, dx []T) {
	planes := p.N * p.C
	if kernel.Is32[T]() && p.separate != nil {
		p.eachRow(p.separate.maxGrad(planes, kernel.As32(dy), idx, kernel.As32(dx)), planes, func(in, out, row int) {
			clear(unseen(p, dx[in:], row))
			scatter(dx[in:], dy[out:], idx[out:][:p.OutW()])
		})
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
	in, out, planes, first := p.H*p.W, p.OutH()*p.OutW(), p.N*p.C, 0
	switch {
	case p.global():
		AdaptiveAvgPool2D(p.N, p.C, p.H, p.W, 1, 1, x, y)
		return
	case kernel.Is32[T]() && p.apart():
		first = p.separate.mean(planes, kernel.As32(x), kernel.As32(y))
	case kernel.Is32[T]() && p.windows != nil:
		clear(kernel.As32(scratch)[:p.windows.frame.Elems()]) // a border of zeros
		for i := range planes {
			p.windows.mean(kernel.As32(x[i*in:][:in]), kernel.As32(y[i*out:][:out]), kernel.As32(scratch))
		}
		return
	}
	p.eachRow(first, planes, func(in, out, row int) {
		src, dst := x[in:], y[out:]
		p.eachWindow(row, func(o, h0, h1, w0, w1, count int) {
			dst[o] = windowSum(src, p.W, h0, h1, w0, w1) / T(count)
		})
	})
}

// AvgPool2DGrad spreads each dy over its window, and overwrites dx. The scratch holds p.GradScratch elements.
func AvgPool2DGrad[T kernel.Float](p *Shape, dy, dx, scratch []T) {
	in, out, planes := p.H*p.W, p.OutH()*p.OutW(), p.N*p.C
	first := 0
	switch {
	case p.global():
		AdaptiveAvgPool2DGrad(p.N, p.C, p.H, p.W, 1, 1, dy, dx)
		return
	case kernel.Is32[T]() && p.separate != nil:
		first = p.separate.meanGrad(planes, kernel.As32(dy), kernel.As32(dx))
	case kernel.Is32[T]() && p.spreads():
		clear(kernel.As32(scratch)[:p.windows.grad.Elems()])
		for i := range planes {
			p.windows.spread(kernel.As32(dy[i*out:][:out]), kernel.As32(dx[i*in:][:in]), kernel.As32(scratch))
		}
		return
	}
	p.eachRow(first, planes, func(in, out, row int) {
		d, g := dx[in:], dy[out:]
		clear(unseen(p, d, row))
		p.eachWindow(row, func(o, h0, h1, w0, w1, count int) {
			windowAdd(d, p.W, h0, h1, w0, w1, g[o]/T(count))
		})
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

// AdaptiveAvgPool2D averages [n, c, h, w] down to [n, c, oh, ow]; window i of a
// dimension runs from ⌊i·in/out⌋ to ⌈(i+1)·in/out⌉.
func AdaptiveAvgPool2D[T kernel.Float](n, c, h, w, oh, ow int, x, y []T) {
	if oh*ow == 1 && kernel.HasVectors[T]() {
		elementwise.RowSums(n*c, h*w, x, y)
		for i := range y[:n*c] {
			y[i] /= T(h * w)
		}
		return
	}
	if oh == h && ow == w {
		copy(y[:n*c*h*w], x)
		return
	}
	for i := range n * c {
		src, dst := x[i*h*w:][:h*w], y[i*oh*ow:][:oh*ow]
		adaptiveWindows(h, w, oh, ow, func(o, h0, h1, w0, w1 int) {
			dst[o] = windowSum(src, w, h0, h1, w0, w1) / T((h1-h0)*(w1-w0))
		})
	}
}

// AdaptiveAvgPool2DGrad spreads each dy over its window, and overwrites dx.
func AdaptiveAvgPool2DGrad[T kernel.Float](n, c, h, w, oh, ow int, dy, dx []T) {
	if oh*ow == 1 {
		spreadPlanes(n*c, h*w, dy, dx)
		return
	}
	if oh == h && ow == w {
		copy(dx[:n*c*h*w], dy)
		return
	}
	for i := range n * c {
		d, g := dx[i*h*w:][:h*w], dy[i*oh*ow:][:oh*ow]
		clear(d)
		adaptiveWindows(h, w, oh, ow, func(o, h0, h1, w0, w1 int) {
			windowAdd(d, w, h0, h1, w0, w1, g[o]/T((h1-h0)*(w1-w0)))
		})
	}
}

// spreadPlanes divides each dy among the elements of its plane.
func spreadPlanes[T kernel.Float](planes, size int, dy, dx []T) {
	var shares [64]T
	for planes > 0 {
		n := min(planes, len(shares))
		for i, g := range dy[:n] {
			shares[i] = g / T(size)
		}
		elementwise.FillRows(n, size, shares[:n], dx)
		planes, dy, dx = planes-n, dy[n:], dx[n*size:]
	}
}

func adaptiveWindows(h, w, oh, ow int, f func(o, h0, h1, w0, w1 int)) {
	for i := range oh {
		for j := range ow {
			f(i*ow+j, i*h/oh, ((i+1)*h+oh-1)/oh, j*w/ow, ((j+1)*w+ow-1)/ow)
		}
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

func windowAdd[T kernel.Float](x []T, width, h0, h1, w0, w1 int, v T) {
	for h := h0; h < h1; h++ {
		for w := w0; w < w1; w++ {
			x[h*width+w] += v
		}
	}
}
