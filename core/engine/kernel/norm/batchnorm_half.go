package norm

import (
	"math"

	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/convert"
	"github.com/trainctl/trainctl/core/tensor"
)

// Batch norm of images of a half type [n, c, hw] at every level with vectors, with a
// residual and a ReLU behind it if there are any. It computes what float32's passes do of
// the widened values and rounds once. Statistics and what is per channel stay float32. d
// names the half type; bfloat16 has further kernels where AVX512-BF16 is (batchnorm_bf16.go).

// mostHalf is the pixels of planes that these passes are for: larger ones do not fit into the L1 cache in float32.
const mostHalf = 4096

// TakesHalf reports whether planes of hw elements go this way at the active level: smaller ones are left to float32's passes, which take
// them by columns.
func TakesHalf(hw int) bool {
	return kernel.Current() != kernel.Generic && mostWritten < hw && hw <= mostHalf
}

// BatchNormStatsHalfOf is BatchNormStatsOf of planes of a half type.
func BatchNormStatsHalfOf(d tensor.DType, lo, hi, n, c, hw int, x []uint16, mean, variance []float32) {
	if n >= leastImages && inStages(hw) {
		halfPixelStats(d, lo, hi, n, c, hw, x, mean, variance)
		return
	}
	var room [mostHalf]float32
	size, head := newPlaneSize(hw, hw), kernel.Head(hw)
	channelMoments(lo, hi, n, c, hw, max(1, mostHalf/hw), func(at, planes int, known bool, mean float64) moments {
		if known && head == hw {
			return halfMomentsAround(d, planes, hw, c*hw, x[at:], float32(mean))
		}
		for i := range planes {
			convert.Widen(d, room[i*hw:][:hw], tensor.Bytes(x[at+i*c*hw:][:hw]))
		}
		if known {
			return momentsAround(planes, room[:planes*hw], float32(mean), &size)
		}
		return planeMoments(planes, room[:planes*hw], &size)
	}, mean, variance)
}

// halfMomentsAround is momentsAround of planes of hw elements of a half type, a multiple of a block, which lie stride
// elements apart.
func halfMomentsAround(d tensor.DType, planes, hw, stride int, x []uint16, center float32) moments {
	sums := vecBF16MomentsAround
	if d == tensor.F16 {
		sums = vecF16MomentsAround
	}
	diff, square := sums(planes, &x[0], hw, center, 2*stride, 2*hw)
	around, share := float64(diff), 1/float64(planes*hw)
	return moments{float64(center) + around*share, float64(square) - around*around*share}
}

// BatchNormApplyHalf computes y = (x − mean)·invstd·gamma + beta + residual, and its ReLU
// if asked for, rounded once; gamma, beta and residual may be nil. y may be x or residual.
func BatchNormApplyHalf(d tensor.DType, n, c, hw int, x []uint16, mean, invstd, gamma, beta []float32, residual []uint16, relu bool, y []uint16) {
	if inStages(hw) {
		stagedApply(d, n, c, hw, x, mean, invstd, gamma, beta, residual, relu, y)
		return
	}
	floor := float32(math.Inf(-1))
	if relu {
		floor = 0
	}
	eachPlane(n, c, hw, invstd, gamma, beta, func(at, ch int, scale, shift float32) {
		halfPlane{d, x[at:][:hw], nil, nil, y[at:][:hw]}.apply(part(residual, at, hw), mean[ch], scale, shift, floor)
	})
}

// BatchNormGradHalfOf is the backward pass of the channels [lo, hi) of c, as
// BatchNormReLUGradOf is for float32: y is nil without a ReLU, and d, if not nil, receives
// the part of dy that passes it.
func BatchNormGradHalfOf(t tensor.DType, lo, hi, n, c, hw int, x, y, dy []uint16, mean, invstd, gamma []float32, dx []uint16, dgamma, dbeta []float32, d []uint16, accumulate bool) {
	g := halfGrad{t: t, c: c, hw: hw, x: x, y: y, dy: dy, dx: dx, d: d}
	var stage gradStage
	if inStages(hw) {
		g.stage = &stage
	}
	for block := channelBlock(n, hw, 3); lo < hi; lo += block {
		end := min(lo+block, hi)
		var sums, dots [mostChannels]float64
		for i := range n {
			g.sums(i, lo, mean[lo:end], &sums, &dots)
		}
		count := float64(n * hw)
		var meanDy, slope, scale [mostChannels]float32
		BatchNormGradAffine(lo, end, sums[:], dots[:], invstd, dgamma, dbeta, accumulate)
		for ch := lo; ch < end; ch++ {
			j := ch - lo
			scale[j], _ = affine(ch, invstd, gamma, nil)
			meanDy[j], slope[j] = float32(sums[j]/count), float32(dots[j]/count*float64(invstd[ch])*float64(invstd[ch]))
		}
		for i := range n {
			g.input(i, lo, mean[lo:end], meanDy[:], slope[:], scale[:])
		}
	}
}

// halfGrad is a backward pass.
type halfGrad struct {
	t               tensor.DType
	c, hw           int
	x, y, dy, dx, d []uint16
	stage           *gradStage // for planes that go inStages
}

// sums adds Σd and Σd·(x−mean) of planes of image i, from channel lo on, one for each mean.
func (g *halfGrad) sums(i, lo int, mean []float32, sums, dots *[mostChannels]float64) {
	at := (i*g.c + lo) * g.hw
	if g.stage != nil {
		g.stagedSums(at, mean, sums[:], dots[:])
		return
	}
	for j, m := range mean {
		a, b := halfPlane{g.t, g.x[at:][:g.hw], part(g.y, at, g.hw), g.dy[at:][:g.hw], part(g.d, at, g.hw)}.sums(m)
		sums[j] += a
		dots[j] += b
		at += g.hw
	}
}

// gated is the gradient of the norm's output, and the output of a ReLU that decides what of it passes; nil if all of it does.
func (g *halfGrad) gated() (dy, gate []uint16) {
	if g.d != nil {
		return g.d, nil
	}
	return g.dy, g.y
}

// input writes dx of planes of image i, from channel lo on, one for each mean.
func (g *halfGrad) input(i, lo int, mean, meanDy, slope, scale []float32) {
	at := (i*g.c + lo) * g.hw
	if g.stage != nil {
		g.stagedInput(at, mean, meanDy, slope, scale)
		return
	}
	dy, gate := g.gated()
	for j, m := range mean {
		halfPlane{g.t, g.x[at:][:g.hw], part(gate, at, g.hw), dy[at:][:g.hw], g.dx[at:][:g.hw]}.grad(m, meanDy[j], slope[j], scale[j])
		at += g.hw
	}
}

// halfPlane is a plane of x, with that of a ReLU's output and of a gradient where a pass
// reads them, and that of what it writes.
type halfPlane struct {
	d        tensor.DType
	x, y, dy []uint16
	to       []uint16
}

// apply computes to = max((x−mean)·scale + shift + r, floor); r may be nil.
func (p halfPlane) apply(r []uint16, mean, scale, shift, floor float32) {
	n := kernel.Head(len(p.x))
	switch {
	case n == 0:
	case p.d == tensor.F16 && r == nil:
		vecF16Apply(&p.x[0], mean, scale, shift, floor, &p.to[0], n)
	case p.d == tensor.F16:
		vecF16AddApply(&p.x[0], &r[0], mean, scale, shift, floor, &p.to[0], n)
	case r == nil:
		vecBF16Apply(&p.x[0], mean, scale, shift, floor, &p.to[0], n)
	default:
		vecBF16AddApply(&p.x[0], &r[0], mean, scale, shift, floor, &p.to[0], n)
	}
	for i := n; i < len(p.x); i++ {
		v := float32((p.wide(p.x, i)-mean)*scale) + shift
		if r != nil {
			v += p.wide(r, i)
		}
		if v <= floor { // a NaN stays
			v = floor
		}
		p.round(i, v)
	}
}

// sums is Σd and Σd·(x−mean), where d is the part of dy that passes the ReLU, and stores d
// if it has a place.
func (p halfPlane) sums(mean float32) (sum, dot float64) {
	n := kernel.Head(len(p.x))
	if n > 0 {
		a, b := p.vectorSums(mean, n)
		sum, dot = float64(a), float64(b)
	}
	for i := n; i < len(p.x); i++ {
		g := p.passed(i)
		sum += float64(g)
		dot += float64(g) * (float64(p.wide(p.x, i)) - float64(mean))
		if p.to != nil {
			p.round(i, g)
		}
	}
	return sum, dot
}

func (p halfPlane) vectorSums(mean float32, n int) (sum, dot float32) {
	half := p.d == tensor.F16
	switch {
	case p.y == nil && half:
		return vecF16Sums(&p.dy[0], &p.x[0], mean, n)
	case p.y == nil:
		return vecBF16Sums(&p.dy[0], &p.x[0], mean, n)
	case p.to == nil && half:
		return vecF16ReLUSums(&p.y[0], &p.dy[0], &p.x[0], mean, n)
	case p.to == nil:
		return vecBF16ReLUSums(&p.y[0], &p.dy[0], &p.x[0], mean, n)
	case half:
		return vecF16ReLUSumsTo(&p.y[0], &p.dy[0], &p.x[0], &p.to[0], mean, n)
	}
	return vecBF16ReLUSumsTo(&p.y[0], &p.dy[0], &p.x[0], &p.to[0], mean, n)
}

// grad computes to = (d − meanDy − (x−mean)·slope)·scale.
func (p halfPlane) grad(mean, meanDy, slope, scale float32) {
	n := kernel.Head(len(p.x))
	switch half := p.d == tensor.F16; {
	case n == 0:
	case p.y == nil && half:
		vecF16Grad(&p.x[0], &p.dy[0], mean, meanDy, slope, scale, &p.to[0], n)
	case p.y == nil:
		vecBF16Grad(&p.x[0], &p.dy[0], mean, meanDy, slope, scale, &p.to[0], n)
	case half:
		vecF16ReLUGrad(&p.x[0], &p.y[0], &p.dy[0], mean, meanDy, slope, scale, &p.to[0], n)
	default:
		vecBF16ReLUGrad(&p.x[0], &p.y[0], &p.dy[0], mean, meanDy, slope, scale, &p.to[0], n)
	}
	for i := n; i < len(p.x); i++ {
		p.round(i, (p.passed(i)-meanDy-float32((p.wide(p.x, i)-mean)*slope))*scale)
	}
}

// wide is an element of a plane.
func (p halfPlane) wide(x []uint16, i int) float32 {
	if p.d == tensor.F16 {
		return tensor.F32FromF16(x[i])
	}
	return tensor.F32FromBF16(x[i])
}

// passed is an element of dy, or 0 where the ReLU is closed.
func (p halfPlane) passed(i int) float32 {
	if p.y != nil && p.wide(p.y, i) <= 0 {
		return 0
	}
	return p.wide(p.dy, i)
}

func (p halfPlane) round(i int, v float32) {
	if p.d == tensor.F16 {
		p.to[i] = tensor.F16FromF32(v)
	} else {
		p.to[i] = tensor.BF16FromF32(v)
	}
}
