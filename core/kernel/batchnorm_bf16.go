package kernel

import "math"

// Batch norm of bfloat16 images [n, c, hw], hw even, with a residual and a ReLU
// behind it if there are any. Statistics and what is per channel stay float32.
// All need HasBF16.

// A gate that is open everywhere, and a residual of nothing.
var (
	openGate = func() (ones [pairLanes]uint16) {
		for i := range ones {
			ones[i] = 0x3f80
		}
		return ones
	}()
	noResidual [pairLanes]uint16
)

// BatchNormApplyBF16 computes y = (x − mean)·invstd·gamma + beta + residual, and
// its ReLU if asked for, rounded once; gamma, beta and residual may be nil. y may be x or residual.
func BatchNormApplyBF16(n, c, hw int, x []uint16, mean, invstd, gamma, beta []float32, residual []uint16, relu bool, y []uint16) {
	floor := float32(math.Inf(-1))
	if relu {
		floor = 0
	}
	for i := range n * c {
		scale, shift := affine(i%c, invstd, gamma, beta)
		r, step := &noResidual[0], 0
		if residual != nil {
			r, step = &residual[i*hw:][:hw][0], 2*pairLanes
		}
		vecHalfNorm(&x[i*hw:][:hw][0], r, step, mean[i%c], scale, shift, floor, &y[i*hw:][:hw][0], hw/2)
	}
}

// BatchNormGradBF16Of is the backward pass of the channels [lo, hi) of c: from x,
// mean, invstd and dy it overwrites dx, rounded once, and writes or adds dgamma and
// dbeta (each may be nil, as gamma may). A gate, if not nil, is the output of a ReLU
// behind the norm: dy counts where it is not ≤ 0. dx may be dy or x.
func BatchNormGradBF16Of(lo, hi, n, c, hw int, x, gate, dy []uint16, mean, invstd, gamma []float32, dx []uint16, dgamma, dbeta []float32, accumulate bool) {
	count := float64(n * hw)
	gateOf := func(i int) (*uint16, int) {
		if gate == nil {
			return &openGate[0], 0
		}
		return &gate[i*hw:][:hw][0], 2 * pairLanes
	}
	for ch := lo; ch < hi; ch++ {
		var sum, dot float64
		for i := ch; i < n*c; i += c {
			g, step := gateOf(i)
			a, b := vecHalfNormSums(&x[i*hw:][:hw][0], &dy[i*hw:][:hw][0], g, step, mean[ch], hw/2)
			sum += float64(a)
			dot += float64(b)
		}
		storeGrad(dgamma, ch, dot*float64(invstd[ch]), accumulate)
		storeGrad(dbeta, ch, sum, accumulate)
		scale, slope, offset := normSlope(count, sum, dot, mean[ch], invstd[ch], gamma, ch)
		for i := ch; i < n*c; i += c {
			g, step := gateOf(i)
			vecHalfNormGrad(&x[i*hw:][:hw][0], &dy[i*hw:][:hw][0], g, step, scale, slope, offset, &dx[i*hw:][:hw][0], hw/2)
		}
	}
}

// normSlope are the factors of dx = dy·scale + x·slope + offset.
func normSlope(count, sum, dot float64, mean, invstd float32, gamma []float32, ch int) (scale, slope, offset float32) {
	wide := float64(invstd)
	if gamma != nil {
		wide *= float64(gamma[ch])
	}
	s := dot / count * float64(invstd) * float64(invstd) * wide
	return float32(wide), float32(-s), float32(float64(mean)*s - sum/count*wide)
}
