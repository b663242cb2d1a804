package adaptive

import (
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/elementwise"
	"github.com/trainctl/trainctl/core/engine/kernel/move"
)

// Windows of small planes are too short for vectors. So some planes at a time are transposed: the pixels of all of them that have the same
// place lie side by side, and windows add up rows of these. Sums begin with the rows of a window, as they do in meanWindows.

// What bounds planes that are transposed: how many at a time, and the elements of the larger side of all and of one, so that they stay near.
const (
	mostPlanes     = 64
	mostElems      = 1 << 14
	mostPlaneElems = 1 << 10
)

// planes are some planes side by side: pixel p of plane i is element p·n + i.
type planes[T kernel.Float] struct {
	n            int
	h, w, oh, ow int
	x, y         []T // [h·w, n] and [oh·ow, n]
	line         []T // [w, n]: the rows of a window, added up; for gradients what they have in common
	shares       []T // [oh·ow]: 1 by the size of each window
}

// planesAtOnce is how many planes are transposed at a time, or 0.
func planesAtOnce(h, w, oh, ow int) int {
	elems := max(h*w, oh*ow)
	if elems > mostPlaneElems {
		return 0
	}
	return min(mostPlanes, mostElems/elems)
}

// planesElems is the scratch that so many planes at a time need.
func planesElems(n, h, w, oh, ow int) int { return n*(h*w+w+oh*ow) + oh*ow }

// newPlanes divides scratch.
func newPlanes[T kernel.Float](h, w, oh, ow int, scratch []T) planes[T] {
	cut := func(n int) (part []T) {
		part, scratch = scratch[:n], scratch[n:]
		return part
	}
	n := planesAtOnce(h, w, oh, ow)
	p := planes[T]{n: n, h: h, w: w, oh: oh, ow: ow, x: cut(n * h * w), y: cut(n * oh * ow), line: cut(n * w), shares: cut(oh * ow)}
	down, at := newAxis(h, oh), 0
	for range oh {
		h0, h1 := down.next()
		across := newAxis(w, ow)
		for range ow {
			w0, w1 := across.next()
			p.shares[at] = 1 / T((h1-h0)*(w1-w0))
			at++
		}
	}
	return p
}

// means are those of count planes.
func (p *planes[T]) means(count int, x, y []T) {
	in, out := p.h*p.w, p.oh*p.ow
	for i := 0; i < count; i += p.n {
		p.n = min(p.n, count-i)
		move.Transpose(in, p.n, p.x, x[i*in:])
		p.sum()
		elementwise.MulRows(out, p.n, p.y, p.shares, p.y)
		move.Transpose(p.n, out, y[i*out:], p.y)
	}
}

// sum adds up the windows.
func (p *planes[T]) sum() {
	down, row, at := newAxis(p.h, p.oh), p.w*p.n, 0
	for range p.oh {
		h0, h1 := down.next()
		line := addRows(p.x[h0*row:h1*row], p.line[:row])
		across := newAxis(p.w, p.ow)
		for range p.ow {
			w0, w1 := across.next()
			to := p.y[at : at+p.n]
			copy(to, addRows(line[w0*p.n:w1*p.n], to))
			at += p.n
		}
	}
}

// addRows adds up rows as long as sum, and returns the sum, or the row itself if it is the only one.
func addRows[T kernel.Float](rows, sum []T) []T {
	total := rows[:len(sum)]
	for rows = rows[len(sum):]; len(rows) > 0; rows = rows[len(sum):] {
		elementwise.Add(total, rows[:len(sum)], sum)
		total = sum
	}
	return total
}

// grads are the gradients of count planes.
func (p *planes[T]) grads(count int, dy, dx []T) {
	in, out := p.h*p.w, p.oh*p.ow
	for i := 0; i < count; i += p.n {
		p.n = min(p.n, count-i)
		move.Transpose(out, p.n, p.y, dy[i*out:])
		elementwise.MulRows(out, p.n, p.y, p.shares, p.y)
		p.spread()
		move.Transpose(p.n, in, dx[i*in:], p.x)
	}
}

// spread gives each pixel the shares of the windows that see it.
func (p *planes[T]) spread() {
	down, row, at, written := newAxis(p.h, p.oh), p.w*p.n, 0, 0
	for range p.oh {
		h0, h1 := down.next()
		across, known := newAxis(p.w, p.ow), 0
		for range p.ow {
			w0, w1 := across.next()
			known = p.give(p.line, p.y[at:at+p.n], w0, w1, known)
			at += p.n
		}
		written = p.give(p.x, p.line[:row], h0, h1, written)
	}
}

// give adds share to rows from to end of to, which are as long as share. Those from known on have not been written: they become share. It
// returns how many are written then.
func (p *planes[T]) give(to, share []T, from, end, known int) int {
	for i := from; i < end; i++ {
		if row := to[i*len(share):][:len(share)]; i < known {
			elementwise.AddTo(row, share)
		} else {
			copy(row, share)
		}
	}
	return end
}
