package adaptive

import (
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/elementwise"
)

// Average pooling to a given size. Window i of an axis runs from ⌊i·in/out⌋ to ⌈(i+1)·in/out⌉, as in PyTorch, so windows may overlap, and
// differ in size. All windows of a row of outputs see the same rows, which are added up first.

// Scratch is how many elements AvgPool2D and its gradient need for planes of h×w and oh×ow.
func Scratch(h, w, oh, ow int) int {
	return max(w, planesElems(planesAtOnce(h, w, oh, ow), h, w, oh, ow))
}

// AvgPool2D averages [n, c, h, w] down, or up, to [n, c, oh, ow]. The scratch holds Scratch elements; it may be nil
// for a single output.
func AvgPool2D[T kernel.Float](n, c, h, w, oh, ow int, x, y, scratch []T) {
	switch {
	case oh == h && ow == w:
		copy(y[:n*c*h*w], x)
		return
	case oh*ow == 1:
		planeMeans(n*c, h, w, x, y)
		return
	case planesAtOnce(h, w, oh, ow) > 0:
		p := newPlanes(h, w, oh, ow, scratch)
		p.means(n*c, x, y)
		return
	}
	for i := range n * c {
		meanWindows(h, w, oh, ow, x[i*h*w:][:h*w], y[i*oh*ow:][:oh*ow], scratch[:w])
	}
}

// planeMeans are the means of planes of h×w.
func planeMeans[T kernel.Float](planes, h, w int, x, y []T) {
	elementwise.RowSums(planes, h*w, x, y)
	for i := range y[:planes] {
		y[i] /= T(h * w)
	}
}

// meanWindows are the means of a plane's windows. sums has room for a row.
func meanWindows[T kernel.Float](h, w, oh, ow int, x, y, sums []T) {
	down := newAxis(h, oh)
	for range oh {
		h0, h1 := down.next()
		line := x[h0*w:][:w]
		for row := h0 + 1; row < h1; row++ {
			elementwise.Add(line, x[row*w:], sums)
			line = sums
		}
		across := newAxis(w, ow)
		for j := range y[:ow] {
			w0, w1 := across.next()
			var sum T
			for _, v := range line[w0:w1] {
				sum += v
			}
			y[j] = sum / T((h1-h0)*(w1-w0))
		}
		y = y[ow:]
	}
}

// AvgPool2DGrad spreads each dy over its window, and overwrites dx. The scratch is that of AvgPool2D.
func AvgPool2DGrad[T kernel.Float](n, c, h, w, oh, ow int, dy, dx, scratch []T) {
	switch {
	case oh == h && ow == w:
		copy(dx[:n*c*h*w], dy)
		return
	case oh*ow == 1:
		spreadPlanes(n*c, h*w, dy, dx)
		return
	case planesAtOnce(h, w, oh, ow) > 0:
		p := newPlanes(h, w, oh, ow, scratch)
		p.grads(n*c, dy, dx)
		return
	}
	for i := range n * c {
		spreadWindows(h, w, oh, ow, dy[i*oh*ow:][:oh*ow], dx[i*h*w:][:h*w], scratch[:w])
	}
}

// spreadWindows are the gradients of a plane. line has room for a row.
func spreadWindows[T kernel.Float](h, w, oh, ow int, dy, dx, line []T) {
	down, written := newAxis(h, oh), 0
	for range oh {
		h0, h1 := down.next()
		clear(line)
		across := newAxis(w, ow)
		for _, d := range dy[:ow] {
			w0, w1 := across.next()
			share, window := d/T((h1-h0)*(w1-w0)), line[w0:w1]
			for i := range window {
				window[i] += share
			}
		}
		for row := h0; row < h1; row++ {
			if to := dx[row*w:][:w]; row < written {
				elementwise.AddTo(to, line)
			} else {
				copy(to, line)
			}
		}
		dy, written = dy[ow:], h1
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

// axis is the windows of an axis, one after the other, found without divisions.
type axis struct {
	whole, rest, out int
	at, over         int // the next window's start, and its rest by out
}

func newAxis(in, out int) axis { return axis{whole: in / out, rest: in % out, out: out} }

// next is where a window starts and ends.
func (a *axis) next() (from, to int) {
	from = a.at
	a.at, a.over = a.at+a.whole, a.over+a.rest
	if a.over >= a.out {
		a.at, a.over = a.at+1, a.over-a.out
	}
	if a.over > 0 {
		return from, a.at + 1
	}
	return from, a.at
}
