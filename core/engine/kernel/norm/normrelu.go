package norm

import "github.com/trainctl/trainctl/core/engine/kernel"

// Batch norm with a ReLU behind it, and a residual added in between if there is
// one: one pass over memory forward, and two backward, of which the first makes
// the sums.

// BatchNormReLU computes y = max((x − mean)·invstd·gamma + beta + residual, 0) of
// x [n, c, hw]; gamma, beta and residual may be nil. y may be x or residual.
func BatchNormReLU[T kernel.Float](n, c, hw int, x, mean, invstd, gamma, beta, residual, y []T) {
	if !kernel.HasVectors[T]() {
		eachPlane(n, c, hw, invstd, gamma, beta, func(at, ch int, scale, shift T) {
			normReLU(x[at:][:hw], part(residual, at, hw), mean[ch], scale, shift, y[at:][:hw])
		})
		return
	}
	var scale, shift [applyChannels]T
	for lo := 0; lo < c; lo += applyChannels {
		hi := min(lo+applyChannels, c)
		affines(lo, hi, invstd, gamma, beta, scale[:], shift[:])
		if byColumns(lo, hi, n, c, hw, x, mean, scale[:], shift[:], residual, true, y) {
			continue
		}
		for i := range n {
			at := (i*c + lo) * hw
			normReLUPlanes(hi-lo, hw, x[at:], from(residual, at), mean[lo:], scale[:], shift[:], y[at:])
		}
	}
}

// byColumns is the pass over channels [lo, hi) where they are processed by columns, which it reports; scale and shift begin with the first.
func byColumns[T kernel.Float](lo, hi, n, c, hw int, x, mean, scale, shift, residual []T, relu bool, y []T) bool {
	at := lo * hw
	x, mean, residual, y = x[at:], mean[lo:], from(residual, at), y[at:]
	switch {
	case inColumns[T](hw):
		columnApply(columns{n, c, hi - lo}, kernel.As32(x), kernel.As32(mean), kernel.As32(scale), kernel.As32(shift), kernel.As32(residual), relu, kernel.As32(y))
	case appliedInPixels[T](n, hw):
		pixelApply(n, c, hw, hi-lo, kernel.As32(x), kernel.As32(mean), kernel.As32(scale), kernel.As32(shift), kernel.As32(residual), relu, kernel.As32(y))
	default:
		return false
	}
	return true
}

// normReLUPlanes is normReLU of planes of float32 that lie side by side; r may be nil.
func normReLUPlanes[T kernel.Float](planes, hw int, x, r, mean, scale, shift, y []T) {
	lanes := kernel.Lanes()
	vectors, rest, tail := hw/lanes, hw%lanes, kernel.FirstLanes(hw%lanes)
	px, py, center, factor, addend := kernel.Ptr32(x), kernel.Ptr32(y), kernel.Ptr32(mean), kernel.Ptr32(scale), kernel.Ptr32(shift)
	if r == nil {
		vecNormReLURows(planes, px, vectors, rest, tail, center, factor, addend, py, 4*hw)
		return
	}
	vecNormAddReLURows(planes, px, kernel.Ptr32(r), vectors, rest, tail, center, factor, addend, py, 4*hw)
}

// BatchNormReLUGradOf is the backward pass of the channels [lo, hi) of c: from x, the output y
// and its gradient dy it overwrites dx, and writes or adds dgamma and dbeta (each may be nil, as
// gamma may). d, if not nil, receives dy where y is positive: the gradient of the
// residual. dx may be x, and d may be dy; without d, dx may be dy.
func BatchNormReLUGradOf[T kernel.Float](lo, hi, n, c, hw int, x, y, dy, mean, invstd, gamma, dx, dgamma, dbeta, d []T, accumulate bool) {
	normGradOf(3, lo, hi, n, c, hw, x, y, dy, mean, invstd, gamma, dx, dgamma, dbeta, d, accumulate)
}

// normGradOf is BatchNormReLUGradOf, or without y BatchNormGradOf, whose passes look at so many images.
func normGradOf[T kernel.Float](images, lo, hi, n, c, hw int, x, y, dy, mean, invstd, gamma, dx, dgamma, dbeta, d []T, accumulate bool) {
	if inColumns[T](hw) {
		featureGrad(lo, hi, n, c, kernel.As32(x), kernel.As32(y), kernel.As32(dy), kernel.As32(mean), kernel.As32(invstd), kernel.As32(gamma),
			kernel.As32(dx), kernel.As32(dgamma), kernel.As32(dbeta), kernel.As32(d), accumulate)
		return
	}
	for block := gradBlock[T](n, hw, images); lo < hi; lo += block {
		normGradBlock(lo, min(lo+block, hi), n, c, hw, x, y, dy, mean, invstd, gamma, dx, dgamma, dbeta, d, accumulate)
	}
}

// normGradBlock takes the sums of a block of channels, and then their dx. y is nil without a ReLU.
func normGradBlock[T kernel.Float](lo, hi, n, c, hw int, x, y, dy, mean, invstd, gamma, dx, dgamma, dbeta, d []T, accumulate bool) {
	sums, dots := blockSums(lo, hi, n, c, hw, x, y, dy, mean, d)
	gradFromSums(lo, hi, n, c, hw, x, y, dy, mean, invstd, gamma, dx, dgamma, dbeta, d, accumulate, &sums, &dots)
}

// gradFromSums is normGradBlock after the sums.
func gradFromSums[T kernel.Float](lo, hi, n, c, hw int, x, y, dy, mean, invstd, gamma, dx, dgamma, dbeta, d []T, accumulate bool, sums, dots *[mostChannels]float64) {
	BatchNormGradAffine(lo, hi, sums[:], dots[:], invstd, dgamma, dbeta, accumulate)
	blockInput(lo, hi, n, c, hw, float64(n*hw), x, y, dy, mean, invstd, gamma, dx, d, sums, dots)
}

// blockSums computes Σd and Σd·(x−mean) of channels [lo, hi), at most mostChannels. d is dy,
// or what passes the ReLU with output y, which is stored if there is a place for it.
func blockSums[T kernel.Float](lo, hi, n, c, hw int, x, y, dy, mean, d []T) (sums, dots [mostChannels]float64) {
	if inColumns[T](hw) {
		return columnSums(columns{n, c, hi - lo}, kernel.As32(x[lo:]), kernel.As32(from(y, lo)), kernel.As32(dy[lo:]), kernel.As32(mean[lo:]), kernel.As32(from(d, lo)))
	}
	if at := lo * hw; gradInPixels[T](n, hw) {
		return pixelSums(newPixels(n, c, hw, hi-lo), kernel.As32(x[at:]), kernel.As32(from(y, at)), kernel.As32(dy[at:]), kernel.As32(mean[lo:]), kernel.As32(from(d, at)))
	}
	for i := range n {
		at := (i*c + lo) * hw
		planesSums(hw, c*hw, x[at:], from(y, at), dy[at:], mean[lo:hi], from(d, at), sums[:], dots[:])
	}
	return sums, dots
}

// from is x without its first elements, nil if x is.
func from[T any](x []T, at int) []T {
	if x == nil {
		return nil
	}
	return x[at:]
}

// blockInput computes dx = (d − Σd/count − (x−mean)·invstd²·Σd(x−mean)/count)·invstd·gamma of
// channels [lo, hi), from the sums of blockSums or of all ranks.
func blockInput[T kernel.Float](lo, hi, n, c, hw int, count float64, x, y, dy, mean, invstd, gamma, dx, d []T, sums, dots *[mostChannels]float64) {
	var scale, meanDy, slope [mostChannels]T
	for ch := lo; ch < hi; ch++ {
		j := ch - lo
		scale[j], _ = affine(ch, invstd, gamma, nil)
		meanDy[j], slope[j] = T(sums[j]/count), T(dots[j]/count*float64(invstd[ch])*float64(invstd[ch]))
	}
	whole := dyOrGated(y, dy, d)
	if inColumns[T](hw) || gradInPixels[T](n, hw) {
		if whole != nil {
			y, dy = nil, whole
		}
		at, p := lo*hw, newPixels(n, c, hw, hi-lo)
		pixelInput(p, kernel.As32(x[at:]), kernel.As32(from(y, at)), kernel.As32(dy[at:]), kernel.As32(mean[lo:]), kernel.As32(meanDy[:]), kernel.As32(slope[:]), kernel.As32(scale[:]), kernel.As32(dx[at:]))
		return
	}
	for i := range n {
		if kernel.HasVectors[T]() {
			at := (i*c + lo) * hw
			if whole != nil {
				normGradPlanes(hi-lo, hw, x[at:], whole[at:], mean[lo:], meanDy[:], slope[:], scale[:], dx[at:])
			} else {
				reluNormGradPlanes(hi-lo, hw, x[at:], y[at:], dy[at:], mean[lo:], meanDy[:], slope[:], scale[:], dx[at:])
			}
			continue
		}
		for ch := lo; ch < hi; ch++ {
			at, j := (i*c+ch)*hw, ch-lo
			switch {
			case y == nil:
				GradRow(x[at:][:hw], dy[at:][:hw], mean[ch], meanDy[j], slope[j], scale[j], dx[at:][:hw])
			case d != nil:
				GradRow(x[at:][:hw], d[at:][:hw], mean[ch], meanDy[j], slope[j], scale[j], dx[at:][:hw])
			default:
				reluNormGrad(x[at:][:hw], y[at:][:hw], dy[at:][:hw], mean[ch], meanDy[j], slope[j], scale[j], dx[at:][:hw])
			}
		}
	}
}

// reluNormGradPlanes is reluNormGrad of planes of float32 that lie side by side.
func reluNormGradPlanes[T kernel.Float](planes, hw int, x, y, dy, mean, meanDy, slope, scale, dx []T) {
	lanes := kernel.Lanes()
	vecReLUNormGradRows(planes, kernel.Ptr32(x), kernel.Ptr32(y), kernel.Ptr32(dy), hw/lanes, hw%lanes, kernel.FirstLanes(hw%lanes),
		kernel.Ptr32(mean), kernel.Ptr32(meanDy), kernel.Ptr32(slope), kernel.Ptr32(scale), kernel.Ptr32(dx), 4*hw)
}

// dyOrGated is the gradient of the norm's output where it lies in memory: dy without a ReLU,
// d where it was written; else nil.
func dyOrGated[T any](y, dy, d []T) []T {
	if y == nil {
		return dy
	}
	return d
}

// normReLU computes a plane in plain Go; r may be nil.
func normReLU[T kernel.Float](x, r []T, mean, scale, shift T, y []T) {
	for i, v := range x {
		v = T((v-mean)*scale) + shift
		if r != nil {
			v += r[i]
		}
		if v <= 0 { // a NaN stays
			v = 0
		}
		y[i] = v
	}
}

// shortSumsMost is the pixels of planes whose sums are taken together: longer ones have kernels that add up more at a time.
const shortSumsMost = 128

// planesSums adds Σd and Σd·(x−mean) of planes that lie side by side, one for each mean. d is
// dy, or what passes the ReLU with output y, which is stored if there is a place for it. The
// planes to come are so many elements ahead.
func planesSums[T kernel.Float](hw, ahead int, x, y, dy, mean, d []T, sums, dots []float64) {
	if hw <= shortSumsMost && kernel.HasVectors[T]() {
		shortSums(hw, x, y, dy, mean, d, sums, dots)
		return
	}
	for j := range mean {
		var a, b float64
		if at := j * hw; y == nil {
			a, b = planeSums(dy[at:][:hw], x[at:][:hw], mean[j], ahead)
		} else {
			a, b = reluSums(y[at:][:hw], dy[at:][:hw], x[at:][:hw], mean[j], part(d, at, hw), ahead)
		}
		sums[j] += a
		dots[j] += b
	}
}

// shortSums is planesSums in vectors, at most mostChannels planes in one call.
func shortSums[T kernel.Float](hw int, x, y, dy, mean, d []T, sums, dots []float64) {
	var sum, dot [mostChannels]T
	InFours(len(mean), func(r, rows int) {
		at := r * hw
		shortSumsRows(rows, hw, x[at:], from(y, at), dy[at:], mean[r:], from(d, at), sum[r:], dot[r:])
	})
	for j := range mean {
		sums[j] += float64(sum[j])
		dots[j] += float64(dot[j])
	}
}

// shortSumsRows is shortSums of a multiple of four planes, or of any number, to the bit.
func shortSumsRows[T kernel.Float](rows, hw int, x, y, dy, mean, d, sums, dots []T) {
	lanes := kernel.Lanes()
	vectors, rest, tail, fours := hw/lanes, hw%lanes, kernel.FirstLanes(hw%lanes), rows%4 == 0
	px, pdy, center, ps, pd := kernel.Ptr32(x), kernel.Ptr32(dy), kernel.Ptr32(mean), kernel.Ptr32(sums), kernel.Ptr32(dots)
	switch {
	case y == nil && fours:
		vecNormSumsFours(rows, px, pdy, vectors, rest, tail, center, ps, pd, 4*hw)
	case y == nil:
		vecNormSumsRows(rows, px, pdy, vectors, rest, tail, center, ps, pd, 4*hw)
	case d == nil && fours:
		vecReLUSumsFours(rows, px, pdy, kernel.Ptr32(y), vectors, rest, tail, center, ps, pd, 4*hw)
	case d == nil:
		vecReLUSumsRows(rows, px, pdy, kernel.Ptr32(y), vectors, rest, tail, center, ps, pd, 4*hw)
	case fours:
		vecReLUSumsToFours(rows, px, pdy, kernel.Ptr32(y), kernel.Ptr32(d), vectors, rest, tail, center, ps, pd, 4*hw)
	default:
		vecReLUSumsToRows(rows, px, pdy, kernel.Ptr32(y), kernel.Ptr32(d), vectors, rest, tail, center, ps, pd, 4*hw)
	}
}

// reluSums is Σd and Σd·(x−mean) of a plane, and stores d if it has a place. The
// plane to come is so many elements ahead.
func reluSums[T kernel.Float](y, dy, x []T, mean T, d []T, ahead int) (sum, dot float64) {
	done := kernel.HeadOf[T](len(x))
	if done > 0 {
		var a, b float32
		if d == nil {
			a, b = vecReLUSums(kernel.Ptr32(y), kernel.Ptr32(dy), kernel.Ptr32(x), float32(mean), done, 4*ahead)
		} else {
			a, b = vecReLUSumsTo(kernel.Ptr32(y), kernel.Ptr32(dy), kernel.Ptr32(x), float32(mean), kernel.Ptr32(d), done, 4*ahead)
		}
		sum, dot = float64(a), float64(b)
	}
	for i := done; i < len(x); i++ {
		var g T
		if !(y[i] <= 0) {
			g = dy[i]
		}
		sum += float64(g)
		dot += float64(g) * (float64(x[i]) - float64(mean))
		if d != nil {
			d[i] = g
		}
	}
	return sum, dot
}

// reluNormGrad computes dx = (d − meanDy − (x−mean)·slope)·scale of a plane in plain Go.
func reluNormGrad[T kernel.Float](x, y, dy []T, mean, meanDy, slope, scale T, dx []T) {
	for i := range x {
		var g T
		if !(y[i] <= 0) {
			g = dy[i]
		}
		dx[i] = (g - meanDy - T((x[i]-mean)*slope)) * scale
	}
}
