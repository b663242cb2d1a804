package norm

import "github.com/trainctl/trainctl/core/engine/kernel"

// Batch norm with a ReLU behind it, and a residual added in between if there is
// one: one pass over memory forward, and two backward, of which the first makes
// the sums.

// BatchNormReLU computes y = max((x − mean)·invstd·gamma + beta + residual, 0) of
// x [n, c, hw]; gamma, beta and residual may be nil. y may be x or residual.
func BatchNormReLU[T kernel.Float](n, c, hw int, x, mean, invstd, gamma, beta, residual, y []T) {
	eachPlane(n, c, hw, invstd, gamma, beta, func(at, ch int, scale, shift T) {
		normReLU(x[at:][:hw], part(residual, at, hw), mean[ch], scale, shift, y[at:][:hw])
	})
}

// BatchNormReLUGrad is the backward pass: from x, the output y and its gradient
// dy it overwrites dx, and writes or adds dgamma and dbeta (each may be nil, as
// gamma may). d, if not nil, receives dy where y is positive: the gradient of the
// residual. dx may be x, and d may be dy; without d, dx may be dy.
func BatchNormReLUGrad[T kernel.Float](n, c, hw int, x, y, dy, mean, invstd, gamma, dx, dgamma, dbeta, d []T, accumulate bool) {
	BatchNormReLUGradOf(0, c, n, c, hw, x, y, dy, mean, invstd, gamma, dx, dgamma, dbeta, d, accumulate)
}

// BatchNormReLUGradOf does so for the channels [lo, hi) of c.
func BatchNormReLUGradOf[T kernel.Float](lo, hi, n, c, hw int, x, y, dy, mean, invstd, gamma, dx, dgamma, dbeta, d []T, accumulate bool) {
	for block := channelBlock(n, hw, 3); lo < hi; lo += block {
		normGradBlock(lo, min(lo+block, hi), n, c, hw, x, y, dy, mean, invstd, gamma, dx, dgamma, dbeta, d, accumulate)
	}
}

// normGradBlock takes the sums of a block of channels, and then their dx. y is nil without a ReLU.
func normGradBlock[T kernel.Float](lo, hi, n, c, hw int, x, y, dy, mean, invstd, gamma, dx, dgamma, dbeta, d []T, accumulate bool) {
	var sums, dots [mostChannels]float64
	for i := range n {
		for ch := lo; ch < hi; ch++ {
			at := (i*c + ch) * hw
			var a, b float64
			if y == nil {
				a, b = planeSums(dy[at:][:hw], x[at:][:hw], mean[ch], c*hw)
			} else {
				a, b = reluSums(y[at:][:hw], dy[at:][:hw], x[at:][:hw], mean[ch], part(d, at, hw), c*hw)
			}
			sums[ch-lo] += a
			dots[ch-lo] += b
		}
	}
	var scale, meanDy, slope [mostChannels]T
	count := float64(n * hw)
	for ch := lo; ch < hi; ch++ {
		j := ch - lo
		storeGrad(dgamma, ch, dots[j]*float64(invstd[ch]), accumulate)
		storeGrad(dbeta, ch, sums[j], accumulate)
		scale[j], _ = affine(ch, invstd, gamma, nil)
		meanDy[j], slope[j] = T(sums[j]/count), T(dots[j]/count*float64(invstd[ch])*float64(invstd[ch]))
	}
	for i := range n {
		if from := dyOrGated(y, dy, d); from != nil && kernel.HasVectors[T]() {
			at := (i*c + lo) * hw
			normGradPlanes(hi-lo, hw, x[at:], from[at:], mean[lo:], meanDy[:], slope[:], scale[:], dx[at:])
			continue
		}
		for ch := lo; ch < hi; ch++ {
			at, j := (i*c+ch)*hw, ch-lo
			switch {
			case y == nil:
				normGrad(x[at:][:hw], dy[at:][:hw], mean[ch], meanDy[j], slope[j], scale[j], dx[at:][:hw])
			case d != nil:
				normGrad(x[at:][:hw], d[at:][:hw], mean[ch], meanDy[j], slope[j], scale[j], dx[at:][:hw])
			default:
				reluNormGrad(x[at:][:hw], y[at:][:hw], dy[at:][:hw], mean[ch], meanDy[j], slope[j], scale[j], dx[at:][:hw])
			}
		}
	}
}

// dyOrGated is the gradient of the norm's output where it lies in memory: dy without a ReLU,
// d where it was written; else nil.
func dyOrGated[T any](y, dy, d []T) []T {
	if y == nil {
		return dy
	}
	return d
}

// normReLU computes a plane; r may be nil.
func normReLU[T kernel.Float](x, r []T, mean, scale, shift T, y []T) {
	switch n := kernel.HeadOf[T](len(x)); {
	case n == 0:
	case r == nil:
		vecNormReLU(kernel.Ptr32(x), float32(mean), float32(scale), float32(shift), kernel.Ptr32(y), n)
		x, y = x[n:], y[n:]
	default:
		vecNormAddReLU(kernel.Ptr32(x), kernel.Ptr32(r), float32(mean), float32(scale), float32(shift), kernel.Ptr32(y), n)
		x, y, r = x[n:], y[n:], r[n:]
	}
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

// reluNormGrad computes dx = (d − meanDy − (x−mean)·slope)·scale of a plane.
func reluNormGrad[T kernel.Float](x, y, dy []T, mean, meanDy, slope, scale T, dx []T) {
	done := kernel.HeadOf[T](len(x))
	if done > 0 {
		vecReLUNormGrad(kernel.Ptr32(x), kernel.Ptr32(y), kernel.Ptr32(dy), float32(mean), float32(meanDy), float32(slope), float32(scale), kernel.Ptr32(dx), done)
	}
	for i := done; i < len(x); i++ {
		var g T
		if !(y[i] <= 0) {
			g = dy[i]
		}
		dx[i] = (g - meanDy - T((x[i]-mean)*slope)) * scale
	}
}
