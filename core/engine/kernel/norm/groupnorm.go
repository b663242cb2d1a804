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

// size is the number of elements of a group.
func (s *GroupShape) size() int { return s.each() * s.HW }

// GroupNorm normalises each group of channels of each sample of x to mean 0 and (biased)
// variance 1, and applies gamma and beta [channels] (nil for none); mean and invstd
// [n, groups] are kept for the gradient. y may be x. Wu and He, "Group Normalization" (2018).
func GroupNorm[T kernel.Float](s *GroupShape, x, gamma, beta []T, eps float64, y, mean, invstd []T) {
	var f groupFactors[T]
	size, groups, together := s.size(), s.N*s.Groups, s.together()
	for lo := 0; lo < groups; lo += together {
		hi := min(groups, lo+together)
		groupMoments(size, x[lo*size:hi*size], eps, mean[lo:hi], invstd[lo:hi])
		for i := lo; i < hi; i++ {
			s.channels(i, func(ch, count, at int) {
				f.apply(s.HW, count, x[at:], from(gamma, ch), from(beta, ch), mean[i], invstd[i], y[at:])
			})
		}
	}
}

// smallGroup is the most elements of groups that have their moments taken four at a time: they stay in the L1 cache.
const smallGroup = 2048

// together is how many groups have their moments taken before they are normalised.
func (s *GroupShape) together() int {
	if s.size() > smallGroup {
		return 1
	}
	return smallGroup / s.size() * 4
}

// groupMoments computes the mean and 1/√(variance + eps) of groups of size elements.
func groupMoments[T kernel.Float](size int, x []T, eps float64, mean, invstd []T) {
	if kernel.HasVectors[T]() && size <= smallGroup {
		lanes := kernel.Lanes()
		first := min(size, lanes)
		vecRowMoments(len(mean), kernel.Ptr32(x), size/lanes, size%lanes, kernel.FirstLanes(size%lanes), kernel.FirstLanes(first),
			1/float32(first), 1/float32(size), float32(eps), kernel.Ptr32(mean), kernel.Ptr32(invstd), 4*size)
		return
	}
	for i := range mean {
		m := groupMomentsOf(x[i*size:][:size])
		mean[i], invstd[i] = T(m.mean), T(1/math.Sqrt(m.square/float64(size)+eps))
	}
}

// groupMomentsOf are those of one group: in vectors, of its first elements, from whose mean the others are measured.
func groupMomentsOf[T kernel.Float](x []T) moments {
	if !kernel.HasVectors[T]() {
		return momentsRef(x)
	}
	data, first := kernel.As32(x), min(shortPlanes, len(x))
	head, rest := newPlaneSize(first, first), newPlaneSize(len(x)-first, len(x))
	m := planeMoments(1, data, &head)
	if first < len(x) {
		m.merge(momentsAround(1, data[first:], float32(m.mean), &rest), newMergeWeights(first, len(x)-first, 1))
	}
	return m
}

// channels calls f for up to mostChannels channels of group i at a time, with the first, their
// number and their offset.
func (s *GroupShape) channels(i int, f func(ch, count, at int)) {
	sample, first := i/s.Groups, i%s.Groups*s.each()
	for ch := first; ch < first+s.each(); ch += mostChannels {
		f(ch, min(mostChannels, first+s.each()-ch), (sample*s.C+ch)*s.HW)
	}
}

// groupFactors are a few channels' factors and, of a gradient, their sums: one place for all groups, because clearing it
// takes as long as a small group.
type groupFactors[T kernel.Float] struct {
	mean, gain, slope, shift [mostChannels]T
	sums, dots               [mostChannels]float64
}

// apply normalises a few channels of one group.
func (f *groupFactors[T]) apply(hw, count int, x, gamma, beta []T, mean, invstd T, y []T) {
	if kernel.HasVectors[T]() && hw > 1 && gamma != nil && beta != nil {
		lanes := kernel.Lanes()
		vecGroupApplyRows(count, kernel.Ptr32(x), hw/lanes, hw%lanes, kernel.FirstLanes(hw%lanes), float32(mean), float32(invstd), kernel.Ptr32(gamma), kernel.Ptr32(beta), kernel.Ptr32(y), 4*hw)
		return
	}
	for j := range count {
		f.mean[j], f.gain[j], f.shift[j] = mean, invstd, 0
		if gamma != nil {
			f.gain[j] *= gamma[j]
		}
		if beta != nil {
			f.shift[j] = beta[j]
		}
	}
	switch {
	case inColumns[T](hw):
		columnApply(columns{1, count, count}, kernel.As32(x), kernel.As32(f.mean[:]), kernel.As32(f.gain[:]), kernel.As32(f.shift[:]), nil, false, kernel.As32(y))
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
	var f groupFactors[T]
	count := float64(s.size())
	for at := range s.N * (hi - lo) {
		i := at/(hi-lo)*s.Groups + lo + at%(hi-lo)
		var sum, dot float64 // Σdy·gamma and Σdy·gamma·(x−mean) of the group
		s.channels(i, func(ch, n, at int) {
			f.sum(s.HW, n, x[at:], dy[at:], mean[i])
			for j := range n {
				scale := 1.0
				if gamma != nil {
					scale = float64(gamma[ch+j])
				}
				sum += scale * f.sums[j]
				dot += scale * f.dots[j]
				storeGrad(dgamma, ch+j, f.dots[j]*float64(invstd[i]), true)
				storeGrad(dbeta, ch+j, f.sums[j], true)
			}
		})
		meanDy, slope := T(sum/count), T(dot/count*float64(invstd[i])*float64(invstd[i]))
		s.channels(i, func(ch, n, at int) {
			f.input(s.HW, n, x[at:], dy[at:], from(gamma, ch), mean[i], meanDy, slope, invstd[i], dx[at:])
		})
	}
}

// sum computes Σdy and Σdy·(x−mean) of each of a few channels of one group.
func (f *groupFactors[T]) sum(hw, count int, x, dy []T, mean T) {
	for j := range count {
		f.mean[j] = mean
	}
	if inColumns[T](hw) {
		f.sums, f.dots = columnSums(columns{1, count, count}, kernel.As32(x), nil, kernel.As32(dy), kernel.As32(f.mean[:]), nil)
		return
	}
	clear(f.sums[:count])
	clear(f.dots[:count])
	planesSums(hw, hw, x, nil, dy, f.mean[:count], nil, f.sums[:], f.dots[:])
}

// input computes dx = (dy·gamma − meanDy − (x−mean)·slope)·invstd of a few channels of one group.
func (f *groupFactors[T]) input(hw, count int, x, dy, gamma []T, mean, meanDy, slope, invstd T, dx []T) {
	if hw == 1 {
		if gamma != nil {
			elementwise.Mul(dy[:count], gamma[:count], dx[:count])
			dy = dx
		}
		GradRow(x[:count], dy, mean, meanDy, slope, invstd, dx)
		return
	}
	for j := range count {
		f.mean[j], f.gain[j], f.slope[j], f.shift[j] = mean, invstd, -slope*invstd, -meanDy*invstd
		if gamma != nil {
			f.gain[j] *= gamma[j]
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
