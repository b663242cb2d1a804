package norm

import (
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/elementwise"
)

// A batch of features [n, c] has planes of one element. Vectors then hold neighbouring
// channels, which are columns of the batch, instead of neighbouring pixels of a plane. Small planes are columns as
// well, one of each pixel (pixels.go).

// columnRows is how many rows add up in float32 before float64 takes over.
const columnRows = 256

// columns are neighbouring columns of float32.
type columns struct {
	n, stride int // rows, and elements between them
	count     int
}

// inColumns reports whether a batch is processed by columns.
func inColumns[T kernel.Float](hw int) bool { return hw == 1 && kernel.HasVectors[T]() }

// width is the vectors of a row, the elements left, and the mask of those.
func (s columns) width() (vectors, rest int, tail kernel.Mask) {
	lanes := kernel.Lanes()
	return s.count / lanes, s.count % lanes, kernel.FirstLanes(s.count % lanes)
}

// InFours calls f for as many rows as make fours, and for those that are left, with the first and their number.
func InFours(rows int, f func(r, rows int)) {
	whole := rows / 4 * 4
	if whole > 0 {
		f(0, whole)
	}
	if whole < rows {
		f(whole, rows-whole)
	}
}

// featureValues has a value for each of the features whose statistics are taken together.
type featureValues [256]float32

// columnStats computes the mean and biased variance of channels [lo, hi) of x [n, c]. Those of more rows than columnRows are
// merged in float64.
func columnStats(lo, hi, n, c int, x, mean, variance []float32) {
	var means, variances, sums, squares featureValues
	for ; lo < hi; lo += len(means) {
		s := columns{n, c, min(len(means), hi-lo)}
		if n > columnRows {
			s.merged(x[lo:], &means, &variances, &sums, &squares)
		} else {
			s.moments(n, x[lo:], &means, &variances, &sums, &squares)
		}
		copy(mean[lo:hi], means[:s.count])
		copy(variance[lo:hi], variances[:s.count])
	}
}

// merged is moments of any number of rows.
func (s columns) merged(x []float32, mean, variance, sums, squares *featureValues) {
	var ms [len(mean)]moments
	for i := 0; i < s.n; i += columnRows {
		rows := min(columnRows, s.n-i)
		s.moments(rows, x[i*s.stride:], mean, variance, sums, squares)
		w := newMergeWeights(i, rows, 1)
		for j := range s.count {
			ms[j].merge(moments{float64(mean[j]), float64(variance[j]) * float64(rows)}, w)
		}
	}
	for j, m := range ms[:s.count] {
		mean[j], variance[j] = float32(m.mean), float32(m.square/float64(s.n))
	}
}

// moments are those of up to columnRows rows, in two passes: the first finds a mean from the distances to the first row. Sums are theirs to
// use.
func (s columns) moments(rows int, x []float32, mean, variance, sums, squares *featureValues) {
	vectors := kernel.CeilDiv(s.count, kernel.Lanes())
	copy(mean[:s.count], x)
	for range 2 {
		whole := vectors * kernel.Lanes()
		s.addMoments(rows, x, mean[:], sums[:whole], squares[:whole])
		vecColumnMeans(vectors, &mean[0], &sums[0], &squares[0], 1/float32(rows), &mean[0], &variance[0])
	}
}

// momentsFrom are those of count values, given Σ(x−center) and Σ(x−center)².
func momentsFrom(center, sum, square float64, count int) moments {
	return moments{center + sum/float64(count), square - sum*sum/float64(count)}
}

// addMoments makes the sums of some rows around a center of each column. Sums have room for whole vectors.
func (s columns) addMoments(rows int, x, center, sums, squares []float32) {
	clear(sums)
	clear(squares)
	s.moreMoments(rows, x, center, sums, squares)
}

// moreMoments adds to the sums of addMoments.
func (s columns) moreMoments(rows int, x, center, sums, squares []float32) {
	vectors, rest, tail := s.width()
	InFours(rows, func(r, rows int) {
		if rows%4 == 0 {
			vecColumnMomentsFours(rows, &x[r*s.stride], vectors, rest, tail, &center[0], &sums[0], &squares[0], 4*s.stride)
		} else {
			vecColumnMoments(rows, &x[r*s.stride], vectors, rest, tail, &center[0], &sums[0], &squares[0], 4*s.stride)
		}
	})
}

// columnSums computes Σd and Σd·(x−mean) of a few channels, where d is dy, or what passes a
// ReLU with output y. With a place for d, it is stored.
func columnSums(s columns, x, y, dy, mean, d []float32) (sums, dots [mostChannels]float64) {
	var sum, dot [mostChannels]float32
	for i := 0; i < s.n; i += columnRows {
		at := i * s.stride
		s.addSums(min(columnRows, s.n-i), x[at:], from(y, at), dy[at:], mean, from(d, at), sum[:], dot[:])
		for j := range s.count {
			sums[j] += float64(sum[j])
			dots[j] += float64(dot[j])
		}
	}
	return sums, dots
}

// addSums makes the sums of columnSums for some rows. They have room for whole vectors.
func (s columns) addSums(rows int, x, y, dy, mean, d, sums, dots []float32) {
	clear(sums)
	clear(dots)
	vectors, rest, tail := s.width()
	InFours(rows, func(r, rows int) {
		at, fours := r*s.stride, rows%4 == 0
		switch { // calls of functions in variables would move the sums to the heap
		case y == nil && fours:
			vecColumnSumsFours(rows, &x[at], &dy[at], vectors, rest, tail, &mean[0], &sums[0], &dots[0], 4*s.stride)
		case y == nil:
			vecColumnSums(rows, &x[at], &dy[at], vectors, rest, tail, &mean[0], &sums[0], &dots[0], 4*s.stride)
		case d == nil && fours:
			vecReLUColumnSumsFours(rows, &x[at], &dy[at], &y[at], vectors, rest, tail, &mean[0], &sums[0], &dots[0], 4*s.stride)
		case d == nil:
			vecReLUColumnSums(rows, &x[at], &dy[at], &y[at], vectors, rest, tail, &mean[0], &sums[0], &dots[0], 4*s.stride)
		case fours:
			vecReLUColumnSumsToFours(rows, &x[at], &dy[at], &y[at], &d[at], vectors, rest, tail, &mean[0], &sums[0], &dots[0], 4*s.stride)
		default:
			vecReLUColumnSumsTo(rows, &x[at], &dy[at], &y[at], &d[at], vectors, rest, tail, &mean[0], &sums[0], &dots[0], 4*s.stride)
		}
	})
}

// columnInput computes dx = (d − meanDy − (x−mean)·slope)·scale of a few columns, where d
// is dy, or what passes a ReLU with output y.
func columnInput(s columns, x, y, dy, mean, meanDy, slope, scale, dx []float32) {
	vectors, rest, tail := s.width()
	if y == nil {
		vecColumnGrad(s.n, &x[0], &dy[0], vectors, rest, tail, &mean[0], &meanDy[0], &slope[0], &scale[0], &dx[0], 4*s.stride)
		return
	}
	vecReLUColumnGrad(s.n, &x[0], &dy[0], &y[0], vectors, rest, tail, &mean[0], &meanDy[0], &slope[0], &scale[0], &dx[0], 4*s.stride)
}

// columnApply computes y = (x − mean)·scale + shift of a few columns, with relu adds a residual if
// there is one, and clips below 0.
func columnApply(s columns, x, mean, scale, shift, residual []float32, relu bool, y []float32) {
	vectors, rest, tail := s.width()
	switch {
	case residual != nil:
		vecColumnAffineAddReLU(s.n, &x[0], &residual[0], vectors, rest, tail, &mean[0], &scale[0], &shift[0], &y[0], 4*s.stride)
	case relu:
		vecColumnAffineReLU(s.n, &x[0], vectors, rest, tail, &mean[0], &scale[0], &shift[0], &y[0], 4*s.stride)
	default:
		vecColumnAffine(s.n, &x[0], vectors, rest, tail, &mean[0], &scale[0], &shift[0], &y[0], 4*s.stride)
	}
}

// featureGrad is the gradient of channels [lo, hi) of x [n, c], as BatchNormReLUGradOf has it; y is nil without a ReLU.
func featureGrad(lo, hi, n, c int, x, y, dy, mean, invstd, gamma, dx, dgamma, dbeta, d []float32, accumulate bool) {
	var sums, dots, factors, scale, meanDy, slope featureValues
	for ; lo < hi; lo += len(sums) {
		s := columns{n, c, min(len(sums), hi-lo)}
		end := lo + s.count
		s.gradSums(x[lo:], from(y, lo), dy[lo:], mean[lo:], from(d, lo), &sums, &dots)
		copy(factors[:], invstd[lo:end])
		elementwise.Fill(scale[:s.count], 1)
		copy(scale[:s.count], from(gamma, lo))
		vecColumnGradFactors(kernel.CeilDiv(s.count, kernel.Lanes()), &sums[0], &dots[0], &factors[0], &scale[0], 1/float32(n), &meanDy[0], &slope[0])
		storeFeatures(part(dgamma, lo, s.count), dots[:], accumulate)
		storeFeatures(part(dbeta, lo, s.count), sums[:], accumulate)
		if g := dyOrGated(y, dy, d); g != nil {
			columnInput(s, x[lo:], nil, g[lo:], mean[lo:], meanDy[:], slope[:], scale[:], dx[lo:])
		} else {
			columnInput(s, x[lo:], y[lo:], dy[lo:], mean[lo:], meanDy[:], slope[:], scale[:], dx[lo:])
		}
	}
}

// storeFeatures writes or adds the first values to dst.
func storeFeatures(dst, values []float32, accumulate bool) {
	if accumulate && len(dst) > 0 {
		elementwise.AddTo(dst, values[:len(dst)])
		return
	}
	copy(dst, values)
}

// gradSums are those of columnSums: of more rows than columnRows they are added up in float64.
func (s columns) gradSums(x, y, dy, mean, d []float32, sums, dots *featureValues) {
	whole := kernel.CeilDiv(s.count, kernel.Lanes()) * kernel.Lanes()
	if s.n <= columnRows {
		s.addSums(s.n, x, y, dy, mean, d, sums[:whole], dots[:whole])
		return
	}
	var allSums, allDots [len(sums)]float64
	for i := 0; i < s.n; i += columnRows {
		at := i * s.stride
		s.addSums(min(columnRows, s.n-i), x[at:], from(y, at), dy[at:], mean, from(d, at), sums[:whole], dots[:whole])
		for j := range s.count {
			allSums[j] += float64(sums[j])
			allDots[j] += float64(dots[j])
		}
	}
	for j := range s.count {
		sums[j], dots[j] = float32(allSums[j]), float32(allDots[j])
	}
}
