package geometry

import (
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/gemm"
)

// Trim is the part of filters that sees pixels, where images are smaller than filters or their dilation: what surrounds it only ever
// meets padding, whichever output looks.
type Trim struct {
	Shape                      // with that part as its filter
	first, column          int // of the part
	rows, columns, filters int // of whole filters, of one input channel each
}

// Trimmed is the convolution with the part of its filters that sees pixels. It reports whether that is so small that copying it
// takes less time than the zeros.
func (p *Shape) Trimmed() (Trim, bool) {
	t := Trim{Shape: *p, rows: p.R, columns: p.S, filters: p.K * p.C / p.GroupCount()}
	t.first, t.R = seeing(p.H, p.OutH(), p.StrideH, p.PadH, p.R, p.DilationH())
	t.column, t.S = seeing(p.W, p.OutW(), p.StrideW, p.PadW, p.S, p.DilationW())
	t.PadH -= t.first * p.DilationH()
	t.PadW -= t.column * p.DilationW()
	const pays = 2
	return t, t.R*t.S*pays <= p.R*p.S && min(t.R, t.S) > 0 && min(t.PadH, t.PadW) >= 0 && t.OutH() == p.OutH() && t.OutW() == p.OutW()
}

// seeing is the first of the taps of one dimension that see pixels, and how many there are up to the last.
func seeing(in, out, stride, pad, taps, dil int) (first, count int) {
	sees := func(tap int) bool {
		for i := range out {
			if at := i*stride - pad + tap*dil; at >= 0 && at < in {
				return true
			}
		}
		return false
	}
	for first < taps && !sees(first) {
		first++
	}
	for taps > first && !sees(taps-1) {
		taps--
	}
	return first, taps - first
}

// Elems is the size of the filters' parts.
func (t *Trim) Elems() int { return t.filters * t.R * t.S }

// fewFilters is how many filters are copied at a time: the next ones are prefetched meanwhile.
const fewFilters = 64

// Cut copies the parts of the filters w to dst.
func Cut[T kernel.Float](t *Trim, w, dst []T) {
	eachFew(t, w, dst, func(whole, part []T) { copyParts(t, whole, part) })
}

// Spread writes the gradients of the parts to those of the filters, dw, which are zero elsewhere, or adds them.
func Spread[T kernel.Float](t *Trim, part, dw []T, accumulate bool) {
	eachFew(t, dw, part, func(whole, part []T) {
		if !accumulate {
			clear(whole)
		}
		addParts(t, part, whole)
	})
}

// eachFew calls f with a few filters and their parts at a time.
func eachFew[T kernel.Float](t *Trim, whole, part []T, f func(whole, part []T)) {
	size, trim := t.rows*t.columns, t.R*t.S
	for lo := 0; lo < t.filters; lo += fewFilters {
		n := min(fewFilters, t.filters-lo)
		some := whole[lo*size:][:n*size]
		if kernel.HasVectors[T]() {
			gemm.FetchRows(1, len(some), kernel.Ptr32(some), 2*len(some), 0)
		}
		f(some, part[lo*trim:][:n*trim])
	}
}

// copyParts copies one element of all parts after the other, for few instructions each.
func copyParts[T kernel.Float](t *Trim, whole, part []T) {
	size, trim := t.rows*t.columns, t.R*t.S
	if trim == 1 {
		at := t.place(0)
		for i := range part {
			part[i] = whole[at]
			at += size
		}
		return
	}
	for i := range trim {
		at := t.place(i)
		for to := i; to < len(part); to += trim {
			part[to] = whole[at]
			at += size
		}
	}
}

func addParts[T kernel.Float](t *Trim, part, whole []T) {
	size, trim := t.rows*t.columns, t.R*t.S
	if trim == 1 {
		at := t.place(0)
		for _, v := range part {
			whole[at] += v
			at += size
		}
		return
	}
	for i := range trim {
		at := t.place(i)
		for from := i; from < len(part); from += trim {
			whole[at] += part[from]
			at += size
		}
	}
}

// place is where an element of a part is in its filter.
func (t *Trim) place(i int) int { return (t.first+i/t.S)*t.columns + t.column + i%t.S }
