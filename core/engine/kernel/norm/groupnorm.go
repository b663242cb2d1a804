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
		if kernel.HasVectors[T]() && s.HW > 1 && gamma != nil && beta != nil {
			s.applyAffine(lo, hi, kernel.As32(x), kernel.As32(gamma), kernel.As32(beta), kernel.As32(mean), kernel.As32(invstd), kernel.As32(y))
			continue
		}
		f.applyGroups(s, lo, hi, x, gamma, beta, mean, invstd, y)
	}
}

// applyAffine normalises the groups [lo, hi) of all samples', those of a sample in one call, which takes gamma and beta as they are.
func (s *GroupShape) applyAffine(lo, hi int, x, gamma, beta, mean, invstd, y []float32) {
	lanes, tail := kernel.Lanes(), kernel.FirstLanes(s.HW%kernel.Lanes())
	for lo < hi {
		first := lo % s.Groups
		groups, at, ch := min(hi-lo, s.Groups-first), lo*s.size(), first*s.each()
		vecGroupApplyRows(groups, s.each(), &x[at], s.HW/lanes, s.HW%lanes, tail, &mean[lo], &invstd[lo], &gamma[ch], &beta[ch], &y[at], 4*s.HW)
		lo += groups
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
		RowMoments(size, kernel.As32(x), kernel.As32(mean), kernel.As32(invstd))
		InverseRoots(kernel.As32(invstd)[:len(mean)], eps)
		return
	}
	for i := range mean {
		m := groupMomentsOf(x[i*size:][:size])
		mean[i], invstd[i] = T(m.mean), T(1/math.Sqrt(m.square/float64(size)+eps))
	}
}

// RowMoments computes the mean and (biased) variance of rows of size elements, as many as there are means, where there are vectors.
func RowMoments(size int, x, mean, variance []float32) {
	lanes, first := kernel.Lanes(), min(size, 4)
	vecRowMoments(len(mean), &x[0], size/lanes, size%lanes, kernel.FirstLanes(size%lanes), kernel.FirstLanes(first), 1/float32(first), 1/float32(size), &mean[0], &variance[0], 4*size)
}

// InverseRoots replaces each x by 1/√(x + eps), where there are vectors.
func InverseRoots(x []float32, eps float64) { vecInverseRoots(len(x), &x[0], float32(eps)) }

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

// groupFactors are a few channels' factors and, of a gradient, their sums: one place for all groups, because clearing it
// takes as long as a small group.
type groupFactors[T kernel.Float] struct {
	mean, gain, slope, shift [mostChannels]T
	sums, dots               [mostChannels]float64
}

// applyGroups normalises the groups [lo, hi) of all samples', some channels at a time, whichever groups they are of.
func (f *groupFactors[T]) applyGroups(s *GroupShape, lo, hi int, x, gamma, beta, mean, invstd, y []T) {
	each, ch, count, at := s.each(), lo%s.Groups*s.each(), 0, lo*s.size()
	for i := lo; i < hi; i++ {
		if ch == s.C {
			ch = 0
		}
		m, inv := mean[i], invstd[i]
		for end := ch + each; ch < end; ch++ {
			gain, shift := inv, T(0)
			if gamma != nil {
				gain *= gamma[ch]
			}
			if beta != nil {
				shift = beta[ch]
			}
			f.mean[count], f.gain[count], f.shift[count] = m, gain, shift
			if count++; count == mostChannels {
				f.apply(s.HW, count, x[at:], y[at:])
				at += count * s.HW
				count = 0
			}
		}
	}
	if count > 0 {
		f.apply(s.HW, count, x[at:], y[at:])
	}
}

// apply normalises a few channels.
func (f *groupFactors[T]) apply(hw, count int, x, y []T) {
	switch {
	case inColumns[T](hw):
		columnApply(columns{1, count, count}, kernel.As32(x), kernel.As32(f.mean[:]), kernel.As32(f.gain[:]), kernel.As32(f.shift[:]), nil, false, kernel.As32(y))
	case kernel.HasVectors[T]():
		subMulAddPlanes(count, hw, x, f.mean[:], f.gain[:], f.shift[:], y)
	default:
		for j := range count {
			SubMulAdd(x[j*hw:][:hw], f.mean[j], f.gain[j], f.shift[j], y[j*hw:][:hw])
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
	g := groupGrad[T]{GroupShape: s, x: x, dy: dy, gamma: gamma, dx: dx, dgamma: dgamma, dbeta: dbeta}
	for sample := range s.N {
		for first, step := lo, s.gradGroups(); first < hi; first += step {
			i, n := sample*s.Groups+first, min(step, hi-first)
			g.groups(first, mean[i:i+n], invstd[i:i+n], (sample*s.C+first*s.each())*s.HW)
		}
	}
}

// gradGroups is how many groups have their sums taken together: they stay near for the pass behind.
func (s *GroupShape) gradGroups() int {
	const most = 8192 // elements
	if s.HW == 1 {
		return 1
	}
	return max(1, min(mostChannels/s.each(), most/s.size()))
}

// groupGrad is a backward pass.
type groupGrad[T kernel.Float] struct {
	*GroupShape
	x, dy, gamma, dx, dgamma, dbeta []T
	groupFactors[T]
}

// groups is the pass over the groups of a sample from number first on that have these means, and whose elements begin at at.
// Either is there only one of them, or have all together no more than mostChannels.
func (g *groupGrad[T]) groups(first int, mean, invstd []T, at int) {
	if g.inVectors() {
		g.vectors(first, kernel.As32(mean), kernel.As32(invstd), at)
		return
	}
	var sums, dots [mostChannels]float64 // Σdy·gamma and Σdy·gamma·(x−mean) of the groups
	count := float64(g.size())
	g.chunks(first, at, func(ch, width, at int) {
		for k, m := range mean {
			elementwise.Fill(g.mean[k*width:][:width], m)
		}
		g.sum(g.HW, width*len(mean), g.x[at:], g.dy[at:])
		for k := range mean {
			for j := k * width; j < (k+1)*width; j++ {
				scale := 1.0
				if g.gamma != nil {
					scale = float64(g.gamma[ch+j])
				}
				sums[k] += scale * g.sums[j]
				dots[k] += scale * g.dots[j]
				storeGrad(g.dgamma, ch+j, g.dots[j]*float64(invstd[k]), true)
				storeGrad(g.dbeta, ch+j, g.sums[j], true)
			}
		}
	})
	g.chunks(first, at, func(ch, width, at int) {
		if g.HW == 1 {
			g.features(ch, width, at, mean[0], T(sums[0]/count), T(dots[0]/count*float64(invstd[0])*float64(invstd[0])), invstd[0])
			return
		}
		for k, inv := range invstd {
			meanDy, slope := T(sums[k]/count), T(dots[k]/count*float64(inv)*float64(inv))
			g.mean[k], g.slope[k], g.shift[k] = mean[k], -slope*inv, -meanDy*inv
			for j := k * width; j < (k+1)*width; j++ {
				g.gain[j] = inv
				if g.gamma != nil {
					g.gain[j] *= g.gamma[ch+j]
				}
			}
		}
		g.input(g.HW, len(mean), width, g.x[at:], g.dy[at:], g.dx[at:])
	})
}

// inVectors reports whether what lies between the sums and the input's gradient is left to a kernel.
func (g *groupGrad[T]) inVectors() bool {
	return kernel.HasVectors[T]() && g.HW > 1 && g.each() <= mostChannels && g.gamma != nil && g.dgamma != nil && g.dbeta != nil
}

// vectors is groups where no group has more than mostChannels.
func (g *groupGrad[T]) vectors(first int, mean, invstd []float32, at int) {
	groups, each, ch := len(mean), g.each(), first*g.each()
	var sums, dots, gain [mostChannels]float32
	var slope, shift [mostChannels]float32 // of groups
	g.sumsOf(groups*each, mean, at, sums[:], dots[:])
	vecGroupGradFactors(groups, each, &sums[0], &dots[0], &invstd[0], kernel.Ptr32(g.gamma[ch:]), 1/float32(g.size()),
		kernel.Ptr32(g.dgamma[ch:]), kernel.Ptr32(g.dbeta[ch:]), &gain[0], &slope[0], &shift[0])
	lanes := kernel.Lanes()
	vecGroupGradRows(groups, each, kernel.Ptr32(g.x[at:]), kernel.Ptr32(g.dy[at:]), g.HW/lanes, g.HW%lanes, kernel.FirstLanes(g.HW%lanes),
		&mean[0], &slope[0], &shift[0], &gain[0], kernel.Ptr32(g.dx[at:]), 4*g.HW)
}

// sumsOf makes Σdy and Σdy·(x−mean) of channels, given the means of their groups.
func (g *groupGrad[T]) sumsOf(channels int, mean []float32, at int, sums, dots []float32) {
	var center [mostChannels + kernel.Block]float32
	each := g.each()
	vecSpreadRows(len(mean), &mean[0], kernel.CeilDiv(each, kernel.Lanes()), &center[0], 4*each)
	x, dy := kernel.As32(g.x[at:]), kernel.As32(g.dy[at:])
	if g.HW <= shortSumsMost {
		InFours(channels, func(r, rows int) {
			shortSumsRows(rows, g.HW, x[r*g.HW:], nil, dy[r*g.HW:], center[r:], nil, sums[r:], dots[r:])
		})
		return
	}
	for j := range channels {
		sum, dot := planeSums(dy[j*g.HW:][:g.HW], x[j*g.HW:][:g.HW], center[j], g.HW)
		sums[j], dots[j] = float32(sum), float32(dot)
	}
}

// chunks calls f for up to mostChannels channels of a group at a time, or for all of some groups, with the first, how many
// are of a group, and their offset.
func (g *groupGrad[T]) chunks(first, at int, f func(ch, width, at int)) {
	for ch := 0; ch < g.each(); ch += mostChannels {
		f(first*g.each()+ch, min(mostChannels, g.each()-ch), at+ch*g.HW)
	}
}

// features is input of channels of one element.
func (g *groupGrad[T]) features(ch, count, at int, mean, meanDy, slope, invstd T) {
	dy, dx := g.dy[at:], g.dx[at:]
	if g.gamma != nil {
		elementwise.Mul(dy[:count], g.gamma[ch:][:count], dx[:count])
		dy = dx
	}
	GradRow(g.x[at:][:count], dy, mean, meanDy, slope, invstd, dx)
}

// sum computes Σdy and Σdy·(x−mean) of each of a few channels.
func (f *groupFactors[T]) sum(hw, count int, x, dy []T) {
	if inColumns[T](hw) {
		f.sums, f.dots = columnSums(columns{1, count, count}, kernel.As32(x), nil, kernel.As32(dy), kernel.As32(f.mean[:]), nil)
		return
	}
	clear(f.sums[:count])
	clear(f.dots[:count])
	planesSums(hw, hw, x, nil, dy, f.mean[:count], nil, f.sums[:], f.dots[:])
}

// input computes dx = dy·gain + (x−mean)·slope + shift of groups of so many channels, each with its own gain.
func (f *groupFactors[T]) input(hw, groups, width int, x, dy, dx []T) {
	if kernel.HasVectors[T]() {
		lanes := kernel.Lanes()
		vecGroupGradRows(groups, width, kernel.Ptr32(x), kernel.Ptr32(dy), hw/lanes, hw%lanes, kernel.FirstLanes(hw%lanes),
			kernel.Ptr32(f.mean[:]), kernel.Ptr32(f.slope[:]), kernel.Ptr32(f.shift[:]), kernel.Ptr32(f.gain[:]), kernel.Ptr32(dx), 4*hw)
		return
	}
	for at := range groups * width * hw {
		j := at / hw
		k := j / width
		dx[at] = T(dy[at]*f.gain[j]) + T((x[at]-f.mean[k])*f.slope[k]) + f.shift[k]
	}
}
