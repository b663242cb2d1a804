package norm

import (
	"math"

	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/elementwise"
)

// GroupShape is a batch [n, channels, hw] whose channels are divided into groups of neighbours.
type GroupShape struct{ N, C, HW, Groups int }

// each is the number of channels of a group.
func (s *GroupShape) each() int { return s.C / s.Groups }

// GroupNorm normalises each group of channels of each sample of x to mean 0 and (biased)
// variance 1, and applies gamma and beta [channels] (nil for none); mean and invstd
// [n, groups] are kept for the gradient. y may be x. Wu and He, "Group Normalization" (2018).
func GroupNorm[T kernel.Float](s *GroupShape, x, gamma, beta []T, eps float64, y, mean, invstd []T) {
	size := s.each() * s.HW
	first := min(size, s.HW*max(1, shortPlanes/s.HW)) // elements that give a mean from which the others are measured
	head, tail := newPlaneSize(first, 0), newPlaneSize(size-first, 0)
	for i := range s.N * s.Groups {
		var m moments
		if part := x[i*size:][:size]; kernel.HasVectors[T]() {
			m = planeMoments(1, kernel.As32(part), &head)
			if first < size {
				m.merge(momentsAround(1, kernel.As32(part[first:]), float32(m.mean), &tail), newMergeWeights(first, size-first, 1))
			}
		} else {
			m = momentsRef(part)
		}
		mean[i], invstd[i] = T(m.mean), T(1/math.Sqrt(m.square/float64(size)+eps))
		s.channels(i, func(ch, count, at int) {
			groupApply(s.HW, ch, count, x[at:], gamma, beta, mean[i], invstd[i], y[at:])
		})
	}
}

// channels calls f for up to mostChannels channels of group i at a time, with the first, their
// number and their offset.
func (s *GroupShape) channels(i int, f func(ch, count, at int)) {
	sample, first := i/s.Groups, i%s.Groups*s.each()
	for ch := first; ch < first+s.each(); ch += mostChannels {
		f(ch, min(mostChannels, first+s.each()-ch), (sample*s.C+ch)*s.HW)
	}
}

// groupFactors are a few channels' factors.
type groupFactors[T kernel.Float] struct{ mean, gain, slope, shift [mostChannels]T }

// groupApply normalises a few channels of one group.
func groupApply[T kernel.Float](hw, ch, count int, x, gamma, beta []T, mean, invstd T, y []T) {
	var f groupFactors[T]
	for j := range count {
		f.mean[j], f.gain[j], f.shift[j] = mean, invstd, 0
		if gamma != nil {
			f.gain[j] *= gamma[ch+j]
		}
		if beta != nil {
			f.shift[j] = beta[ch+j]
		}
	}
	switch {
	case inColumns[T](hw):
		columnApply(columns{1, count, count}, x, f.mean[:], f.gain[:], f.shift[:], nil, false, y)
	case kernel.HasVectors[T]():
		subMulAddPlanes(count, hw, x, f.mean[:], f.gain[:], f.shift[:], y)
	default:
		for j := range count {
			SubMulAdd(x[j*hw:][:hw], mean, f.gain[j], f.shift[j], y[j*hw:][:hw])
		}
	}
}

// GroupNormGradOf overwrites dx for the groups [lo, hi) of each sample, and writes or adds their
// dgamma and dbeta (each may be nil, as gamma may). dx may be dy.
func GroupNormGradOf[T kernel.Float](lo, hi int, s *GroupShape, x, dy, mean, invstd, gamma, dx, dgamma, dbeta []T, accumulate bool) {
	for ch := lo * s.each(); ch < hi*s.each() && !accumulate; ch++ {
		storeGrad(dgamma, ch, 0, false)
		storeGrad(dbeta, ch, 0, false)
	}
	count := float64(s.each() * s.HW)
	for at := range s.N * (hi - lo) {
		i := at/(hi-lo)*s.Groups + lo + at%(hi-lo)
		var sum, dot float64 // Σdy·gamma and Σdy·gamma·(x−mean) of the group
		s.channels(i, func(ch, n, at int) {
			a, b := groupSums(s.HW, n, x[at:], dy[at:], mean[i])
			for j := range n {
				scale := 1.0
				if gamma != nil {
					scale = float64(gamma[ch+j])
				}
				sum += scale * a[j]
				dot += scale * b[j]
				storeGrad(dgamma, ch+j, b[j]*float64(invstd[i]), true)
				storeGrad(dbeta, ch+j, a[j], true)
			}
		})
		meanDy, slope := T(sum/count), T(dot/count*float64(invstd[i])*float64(invstd[i]))
		s.channels(i, func(ch, n, at int) {
			groupInput(s.HW, ch, n, x[at:], dy[at:], gamma, mean[i], meanDy, slope, invstd[i], dx[at:])
		})
	}
}

// groupSums computes Σdy and Σdy·(x−mean) of each of a few channels.
func groupSums[T kernel.Float](hw, count int, x, dy []T, mean T) (sums, dots [mostChannels]float64) {
	var means [mostChannels]T
	for j := range count {
		means[j] = mean
	}
	if inColumns[T](hw) {
		return columnSums(columns{1, count, count}, x, nil, dy, means[:], nil)
	}
	planesSums(hw, hw, x, nil, dy, means[:count], nil, sums[:], dots[:])
	return sums, dots
}

// groupInput computes dx = (dy·gamma − meanDy − (x−mean)·slope)·invstd of a few channels of one group.
func groupInput[T kernel.Float](hw, ch, count int, x, dy, gamma []T, mean, meanDy, slope, invstd T, dx []T) {
	if hw == 1 {
		if gamma != nil {
			elementwise.Mul(dy[:count], gamma[ch:][:count], dx[:count])
			dy = dx
		}
		GradRow(x[:count], dy, mean, meanDy, slope, invstd, dx)
		return
	}
	var f groupFactors[T]
	for j := range count {
		f.mean[j], f.gain[j], f.slope[j], f.shift[j] = mean, invstd, -slope*invstd, -meanDy*invstd
		if gamma != nil {
			f.gain[j] *= gamma[ch+j]
		}
	}
	if kernel.HasVectors[T]() {
		lanes := kernel.Lanes()
		vecGroupGradRows(count, kernel.Ptr32(x), kernel.Ptr32(dy), hw/lanes, hw%lanes, kernel.FirstLanes(hw%lanes),
			kernel.Ptr32(f.mean[:]), kernel.Ptr32(f.gain[:]), kernel.Ptr32(f.slope[:]), kernel.Ptr32(f.shift[:]), kernel.Ptr32(dx), 4*hw)
		return
	}
	for at := range count * hw {
		j := at / hw
		dx[at] = T(dy[at]*f.gain[j]) + T((x[at]-mean)*f.slope[j]) + f.shift[j]
	}
}
