package norm

import (
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/elementwise"
)

// A batch of features [n, c] has planes of one element. Vectors then hold neighbouring
// channels, which are columns of the batch, instead of neighbouring pixels of a plane.

// columnRows is how many rows add up in float32 before float64 takes over.
const columnRows = 64

// columns are up to mostChannels channels of a batch.
type columns struct {
	n, c  int // rows, and elements between them
	count int
}

// inColumns reports whether a batch is processed by columns.
func inColumns[T kernel.Float](hw int) bool { return hw == 1 && kernel.HasVectors[T]() }

// width is the vectors of a row, the elements left, and the mask of those.
func (s columns) width() (vectors, rest int, tail kernel.Mask) {
	lanes := kernel.Lanes()
	return s.count / lanes, s.count % lanes, kernel.FirstLanes(s.count % lanes)
}

// columnStats computes the mean and biased variance of channels [lo, hi) of x [n, c], by
// chunks of rows whose moments take two passes.
func columnStats[T kernel.Float](lo, hi, n, c int, x, mean, variance []T) {
	for ; lo < hi; lo += mostChannels {
		s := columns{n, c, min(mostChannels, hi-lo)}
		ms := columnMoments(s, x[lo:])
		for ch, m := range ms[:s.count] {
			mean[lo+ch], variance[lo+ch] = T(m.mean), T(m.square/float64(n))
		}
	}
}

func columnMoments[T kernel.Float](s columns, x []T) (ms [mostChannels]moments) {
	var center, sums, squares [mostChannels]T
	vectors, rest, tail := s.width()
	for i := 0; i < s.n; i += columnRows {
		rows, chunk := min(columnRows, s.n-i), x[i*s.c:]
		pass := func() {
			clear(sums[:])
			clear(squares[:])
			vecColumnMoments(rows, kernel.Ptr32(chunk), vectors, rest, tail, kernel.Ptr32(center[:]), kernel.Ptr32(sums[:]), kernel.Ptr32(squares[:]), 4*s.c)
		}
		copy(center[:s.count], chunk)
		pass()
		for j := range s.count {
			center[j] += sums[j] / T(rows)
		}
		pass()
		w := newMergeWeights(i, rows, 1)
		for j := range s.count {
			d := float64(sums[j])
			ms[j].merge(moments{float64(center[j]) + d/float64(rows), float64(squares[j]) - d*d/float64(rows)}, w)
		}
	}
	return ms
}

// columnSums computes Σd and Σd·(x−mean) of a few channels, where d is dy, or what passes a
// ReLU with output y. With a place for d, it is stored.
func columnSums[T kernel.Float](s columns, x, y, dy, mean, d []T) (sums, dots [mostChannels]float64) {
	var sum, dot, gated [mostChannels]T
	vectors, rest, tail := s.width()
	add := func(rows int, x, dy []T) {
		vecColumnSums(rows, kernel.Ptr32(x), kernel.Ptr32(dy), vectors, rest, tail, kernel.Ptr32(mean), kernel.Ptr32(sum[:]), kernel.Ptr32(dot[:]), 4*s.c)
	}
	for i := 0; i < s.n; i += columnRows {
		rows := min(columnRows, s.n-i)
		clear(sum[:])
		clear(dot[:])
		if y == nil {
			add(rows, x[i*s.c:], dy[i*s.c:])
		} else {
			for at := i * s.c; at < (i+rows)*s.c; at += s.c {
				g := gated[:s.count]
				if d != nil {
					g = d[at:][:s.count]
				}
				elementwise.ReLUGrad(y[at:][:s.count], dy[at:][:s.count], g)
				add(1, x[at:], g)
			}
		}
		for j := range s.count {
			sums[j] += float64(sum[j])
			dots[j] += float64(dot[j])
		}
	}
	return sums, dots
}

// columnInput computes dx = (d − meanDy − (x−mean)·slope)·scale of a few channels, where d
// is dy, or what passes a ReLU with output y.
func columnInput[T kernel.Float](s columns, x, y, dy, mean, meanDy, slope, scale, dx []T) {
	vectors, rest, tail := s.width()
	run := func(rows int, x, dy, dx []T) {
		vecColumnGrad(rows, kernel.Ptr32(x), kernel.Ptr32(dy), vectors, rest, tail, kernel.Ptr32(mean), kernel.Ptr32(meanDy), kernel.Ptr32(slope), kernel.Ptr32(scale), kernel.Ptr32(dx), 4*s.c)
	}
	if y == nil {
		run(s.n, x, dy, dx)
		return
	}
	var gated [mostChannels]T
	for at := 0; at < s.n*s.c; at += s.c {
		elementwise.ReLUGrad(y[at:][:s.count], dy[at:][:s.count], gated[:])
		run(1, x[at:], gated[:], dx[at:])
	}
}

// columnApply computes y = (x − mean)·scale + shift of a few channels, adds a residual if
// there is one, and clips below 0 with relu.
func columnApply[T kernel.Float](s columns, x, mean, scale, shift, residual []T, relu bool, y []T) {
	const block = 16 // rows that the L1 cache holds until they are clipped
	vectors, rest, tail := s.width()
	for i := 0; i < s.n; i += block {
		rows := min(block, s.n-i)
		vecColumnAffine(rows, kernel.Ptr32(x[i*s.c:]), vectors, rest, tail, kernel.Ptr32(mean), kernel.Ptr32(scale), kernel.Ptr32(shift), kernel.Ptr32(y[i*s.c:]), 4*s.c)
		for at := i * s.c; relu && at < (i+rows)*s.c; at += s.c {
			row := y[at:][:s.count]
			if residual != nil {
				elementwise.AddTo(row, residual[at:][:s.count])
			}
			elementwise.ReLU(row, row)
		}
	}
}
