package norm

import (
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/reduce"
)

// The formulas are those of Ioffe and Szegedy, "Batch Normalization" (2015), in
// the form of PyTorch's aten/src/ATen/native/Normalization.cpp. x is [n, c, hw];
// every per-channel slice has c elements. Sums run in float64.

// BatchNormStats computes each channel's mean and biased variance.
func BatchNormStats[T kernel.Float](n, c, hw int, x, mean, variance []T) {
	BatchNormStatsOf(0, c, n, c, hw, x, mean, variance)
}

// BatchNormStatsOf does so for the channels [lo, hi) of c.
func BatchNormStatsOf[T kernel.Float](lo, hi, n, c, hw int, x, mean, variance []T) {
	if inColumns[T](hw) {
		columnStats(lo, hi, n, c, kernel.As32(x), kernel.As32(mean), kernel.As32(variance))
		return
	}
	if inPixels[T](n, hw) {
		pixelStats(lo, hi, n, c, hw, kernel.As32(x), kernel.As32(mean), kernel.As32(variance))
		return
	}
	if !kernel.HasVectors[T]() {
		channelMoments(lo, hi, n, c, hw, 1, func(at, _ int, _ bool, _ float64) moments { return momentsRef(x[at:][:hw]) }, mean, variance)
		return
	}
	together := max(1, shortPlanes/hw)
	size := newPlaneSize(hw, c*hw)
	size.ahead = hw // the next channel's planes are the next to come
	channelMoments(lo, hi, n, c, hw, together, func(at, planes int, known bool, mean float64) moments {
		data := kernel.As32(x[at:][:(planes-1)*c*hw+hw])
		if !known {
			return planeMoments(planes, data, &size)
		}
		return momentsAround(planes, data, float32(mean), &size)
	}, mean, variance)
}

// shortPlanes is how many elements of a channel's planes have their moments taken together:
// sums across a vector take as long as dozens of elements. The first few planes give a mean
// from which the others are measured in one pass: planes often lie a multiple of a page apart,
// so that caches do not keep many for a second one. What that loses to rounding is a few ulps of
// the variance at most, because the distances of planes' means from the mean of those before are part of it.
const (
	shortPlanes = 1024
	firstPlanes = 8
)

// channelMoments merges the moments of planes to those of the channels [lo, hi). f gives
// those of up to so many planes of a channel together, from the offset of the first. The mean
// of the planes before is known for all but the first few.
func channelMoments[T kernel.Float](lo, hi, n, c, hw, together int, f func(at, planes int, known bool, mean float64) moments, mean, variance []T) {
	var ms [mostChannels]moments
	for ; lo < hi; lo += mostChannels {
		m := ms[:min(mostChannels, hi-lo)]
		clear(m)
		for i, planes := 0, 0; i < n; i += planes {
			planes = min(together, n-i)
			if i == 0 {
				planes = min(planes, firstPlanes)
			}
			w := newMergeWeights(i, planes, hw)
			for ch := range m {
				m[ch].merge(f((i*c+lo+ch)*hw, planes, i > 0, m[ch].mean), w)
			}
		}
		for ch, m := range m {
			mean[lo+ch], variance[lo+ch] = T(m.mean), T(m.square/float64(n*hw))
		}
	}
}

// Passes over images go by blocks of channels: planes that lie side by side are
// read in one stream. Where there is a second pass, those of all images stay in the L2 cache for it, or in the L3 cache
// where they would be streams of less than streamElems, a page of float32, which hardware does not foresee.
const (
	mostChannels = 64
	blockElems   = 1 << 17
	streamElems  = 1 << 10
)

// channelBlock is the number of channels of a block, if a pass looks at so many images of hw pixels.
func channelBlock(n, hw, images int) int {
	if hw == 1 {
		return mostChannels // a cache line holds several
	}
	return min(mostChannels, max(blockElems/(n*hw*images), kernel.CeilDiv(streamElems, hw)))
}

// gradBlock is channelBlock for a gradient, which may go by columns.
func gradBlock[T kernel.Float](n, hw, images int) int {
	return min(sumChannels[T](n, hw), channelBlock(n, hw, images))
}

// sumChannels is the most channels whose sums are taken together.
func sumChannels[T kernel.Float](n, hw int) int {
	if gradInPixels[T](n, hw) {
		return pixelChannels(hw)
	}
	return mostChannels
}

// moments are the mean of some values and the sum of their squared distances from it.
type moments struct{ mean, square float64 }

// mergeWeights are those of the moments of more planes: their share of all values, and
// the factor of the squared distance of the means.
type mergeWeights struct{ share, distance float64 }

// newMergeWeights is for planes of hw values after i others.
func newMergeWeights(i, planes, hw int) mergeWeights {
	share := float64(planes) / float64(i+planes)
	return mergeWeights{share, float64(i*hw) * share}
}

// merge adds the moments of other values (Chan, Golub and LeVeque, "Updating
// Formulae and a Pairwise Algorithm for Computing Sample Variances", 1979).
func (m *moments) merge(o moments, w mergeWeights) {
	delta := o.mean - m.mean
	m.square += o.square + delta*delta*w.distance
	m.mean += delta * w.share
}

// momentsRef takes two passes in float64 over a plane.
func momentsRef[T kernel.Float](x []T) moments {
	mean := reduce.Sum64(x) / float64(len(x))
	return moments{mean, reduce.SumSqDiff64(x, mean)}
}

// planeSize is what the vector kernels have to know of a plane: whole vectors, lanes of one
// more if there are any, elements, those from one plane to the next, and how far ahead to
// prefetch.
type planeSize struct {
	vectors           int
	tail              kernel.Mask
	hw, stride, ahead int
}

// newPlaneSize is for planes of hw elements that lie stride elements apart, if there are vectors.
func newPlaneSize(hw, stride int) planeSize {
	if kernel.Lanes() == 0 {
		return planeSize{}
	}
	s := planeSize{vectors: hw / kernel.Lanes(), hw: hw, stride: stride, ahead: stride}
	if rest := hw % kernel.Lanes(); rest > 0 {
		s.tail = kernel.FirstLanes(rest)
	}
	return s
}

// planeMoments takes two passes in float32 over planes: the second measures from a mean that
// is nearly right, and so corrects it.
func planeMoments(planes int, x []float32, s *planeSize) moments {
	share := 1 / float64(planes*s.hw)
	mean, diff, square := vecMoments(planes, &x[0], s.vectors, s.tail, float32(share), 4*s.stride, 4*s.ahead)
	d := float64(diff)
	return moments{float64(mean) + d*share, float64(square) - d*d*share}
}

// momentsAround takes one pass, in which it measures from a center that should be near the mean.
func momentsAround(planes int, x []float32, center float32, s *planeSize) moments {
	share := 1 / float64(planes*s.hw)
	diff, square := vecMomentsAround(planes, &x[0], s.vectors, s.tail, center, 4*s.stride, 4*s.ahead)
	d := float64(diff)
	return moments{float64(center) + d*share, float64(square) - d*d*share}
}

// BatchNormApply computes y = (x − mean)·invstd·gamma + beta; gamma and beta may
// be nil. y may be x.
func BatchNormApply[T kernel.Float](n, c, hw int, x, mean, invstd, gamma, beta, y []T) {
	if kernel.HasVectors[T]() {
		var scale, shift [applyChannels]T
		for lo := 0; lo < c; lo += applyChannels {
			hi := min(lo+applyChannels, c)
			affines(lo, hi, invstd, gamma, beta, scale[:], shift[:])
			if byColumns(lo, hi, n, c, hw, x, mean, scale[:], shift[:], nil, false, y) {
				continue
			}
			for i := range n {
				at := (i*c + lo) * hw
				subMulAddPlanes(hi-lo, hw, x[at:], mean[lo:], scale[:], shift[:], y[at:])
			}
		}
		return
	}
	eachPlane(n, c, hw, invstd, gamma, beta, func(at, ch int, scale, shift T) {
		SubMulAdd(x[at:][:hw], mean[ch], scale, shift, y[at:][:hw])
	})
}

// subMulAddPlanes is SubMulAdd of float32 planes that lie side by side.
func subMulAddPlanes[T kernel.Float](planes, hw int, x, mean, scale, shift, y []T) {
	lanes := kernel.Lanes()
	vecSubMulAddRows(planes, kernel.Ptr32(x), hw/lanes, hw%lanes, kernel.FirstLanes(hw%lanes), kernel.Ptr32(mean), kernel.Ptr32(scale), kernel.Ptr32(shift), kernel.Ptr32(y), 4*hw)
}

// normGradPlanes is GradRow of float32 planes that lie side by side.
func normGradPlanes[T kernel.Float](planes, hw int, x, dy, mean, meanDy, slope, scale, dx []T) {
	lanes := kernel.Lanes()
	vecNormGradRows(planes, kernel.Ptr32(x), kernel.Ptr32(dy), hw/lanes, hw%lanes, kernel.FirstLanes(hw%lanes), kernel.Ptr32(mean), kernel.Ptr32(meanDy), kernel.Ptr32(slope), kernel.Ptr32(scale), kernel.Ptr32(dx), 4*hw)
}

// eachPlane calls f for every plane with its offset, its channel, and that channel's
// factor and addend.
func eachPlane[T kernel.Float](n, c, hw int, invstd, gamma, beta []T, f func(at, ch int, scale, shift T)) {
	var scale, shift [applyChannels]T
	for lo := 0; lo < c; lo += applyChannels {
		hi := min(lo+applyChannels, c)
		affines(lo, hi, invstd, gamma, beta, scale[:], shift[:])
		for i := range n {
			for ch := lo; ch < hi; ch++ {
				f((i*c+ch)*hw, ch, scale[ch-lo], shift[ch-lo])
			}
		}
	}
}

// part is the plane of x at an offset, nil if x is.
func part[T any](x []T, at, hw int) []T {
	if x == nil {
		return nil
	}
	return x[at:][:hw]
}

// applyChannels is how many channels' factors are computed ahead of a pass over images.
const applyChannels = 512

// affines are the factors and addends of channels [lo, hi).
func affines[T kernel.Float](lo, hi int, invstd, gamma, beta, scale, shift []T) {
	for ch := lo; ch < hi; ch++ {
		scale[ch-lo], shift[ch-lo] = affine(ch, invstd, gamma, beta)
	}
}

// BatchNormGrad is the backward pass of training mode, where mean and invstd came
// from x itself: it overwrites dx, and writes or adds dgamma and dbeta (each may
// be nil, as gamma may). dx may be dy.
func BatchNormGrad[T kernel.Float](n, c, hw int, x, dy, mean, invstd, gamma, dx, dgamma, dbeta []T, accumulate bool) {
	BatchNormGradOf(0, c, n, c, hw, x, dy, mean, invstd, gamma, dx, dgamma, dbeta, accumulate)
}

// BatchNormGradOf does so for the channels [lo, hi) of c.
func BatchNormGradOf[T kernel.Float](lo, hi, n, c, hw int, x, dy, mean, invstd, gamma, dx, dgamma, dbeta []T, accumulate bool) {
	normGradOf(2, lo, hi, n, c, hw, x, nil, dy, mean, invstd, gamma, dx, dgamma, dbeta, nil, accumulate)
}

// BatchNormGradReduce computes each channel's Σdy and Σdy·(x−mean), which ranks
// add up between each other for a synchronised batch norm. dbeta is the first
// and dgamma the second times invstd.
func BatchNormGradReduce[T kernel.Float](n, c, hw int, x, dy, mean, sumDy, sumDyXmu []T) {
	for lo, step := 0, sumChannels[T](n, hw); lo < c; lo += step {
		hi := min(lo+step, c)
		sums, dots := blockSums(lo, hi, n, c, hw, x, nil, dy, mean, nil)
		for ch := lo; ch < hi; ch++ {
			sumDy[ch], sumDyXmu[ch] = T(sums[ch-lo]), T(dots[ch-lo])
		}
	}
}

// BatchNormGradInput computes dx from sums over count elements per channel, of
// which n·hw are here. dx may be dy.
func BatchNormGradInput[T kernel.Float](n, c, hw int, count float64, x, dy, mean, invstd, gamma, sumDy, sumDyXmu, dx []T) {
	for lo, step := 0, sumChannels[T](n, hw); lo < c; lo += step {
		hi := min(lo+step, c)
		var sums, dots [mostChannels]float64
		for ch := lo; ch < hi; ch++ {
			sums[ch-lo], dots[ch-lo] = float64(sumDy[ch]), float64(sumDyXmu[ch])
		}
		blockInput(lo, hi, n, c, hw, count, x, nil, dy, mean, invstd, gamma, dx, nil, &sums, &dots)
	}
}

// BatchNormGradAffine writes or adds dgamma and dbeta of the channels [lo, hi); each may be nil. sums and dots are those
// channels' Σdy and Σdy·(x−mean), from channel lo on.
func BatchNormGradAffine[T kernel.Float](lo, hi int, sums, dots []float64, invstd, dgamma, dbeta []T, accumulate bool) {
	for ch := lo; ch < hi; ch++ {
		storeGrad(dgamma, ch, dots[ch-lo]*float64(invstd[ch]), accumulate)
		storeGrad(dbeta, ch, sums[ch-lo], accumulate)
	}
}

func storeGrad[T kernel.Float](dst []T, i int, v float64, accumulate bool) {
	if dst == nil {
		return
	}
	if accumulate {
		v += float64(dst[i])
	}
	dst[i] = T(v)
}

// planeSums is Σdy and Σdy·(x−mean) of a plane: whole vectors in float32. The
// plane to come is so many elements ahead.
func planeSums[T kernel.Float](dy, x []T, mean T, ahead int) (sum, dot float64) {
	done := kernel.HeadOf[T](len(x))
	if done > 0 {
		a, b := vecNormSums(kernel.Ptr32(dy), kernel.Ptr32(x), float32(mean), done, 4*ahead)
		sum, dot = float64(a), float64(b)
	}
	for i := done; i < len(x); i++ {
		sum += float64(dy[i])
		dot += float64(dy[i]) * (float64(x[i]) - float64(mean))
	}
	return sum, dot
}

// SubMulAdd computes y = (x−mean)·scale + shift.
func SubMulAdd[T kernel.Float](x []T, mean, scale, shift T, y []T) {
	y = y[:len(x)]
	if n := kernel.HeadOf[T](len(x)); n > 0 {
		vecSubMulAdd(kernel.Ptr32(x), float32(mean), float32(scale), float32(shift), kernel.Ptr32(y), n)
		x, y = x[n:], y[n:]
	}
	for i, v := range x {
		y[i] = T((v-mean)*scale) + shift
	}
}

// GradRow computes dx = (dy − meanDy − (x−mean)·slope)·scale.
func GradRow[T kernel.Float](x, dy []T, mean, meanDy, slope, scale T, dx []T) {
	dy, dx = dy[:len(x)], dx[:len(x)]
	if n := kernel.HeadOf[T](len(x)); n > 0 {
		vecNormGrad(kernel.Ptr32(x), kernel.Ptr32(dy), float32(mean), float32(meanDy), float32(slope), float32(scale), kernel.Ptr32(dx), n)
		x, dy, dx = x[n:], dy[n:], dx[n:]
	}
	for i, v := range x {
		dx[i] = (dy[i] - meanDy - T((v-mean)*slope)) * scale
	}
}
