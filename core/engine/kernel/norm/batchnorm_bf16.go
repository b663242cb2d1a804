package norm

import (
	"math"

	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/elementwise"
	"github.com/trainctl/trainctl/core/tensor"
)

// Batch norm of bfloat16 images [n, c, hw], hw even, with a residual and a ReLU
// behind it if there are any. Statistics and what is per channel stay float32.

// openGate is open everywhere.
var openGate = func() (ones [kernel.PairLanes]uint16) {
	for i := range ones {
		ones[i] = 0x3f80
	}
	return ones
}()

// BatchNormApplyBF16 computes y = (x − mean)·invstd·gamma + beta + residual, and
// its ReLU if asked for, rounded once; gamma, beta and residual may be nil. y may be x or residual.
func BatchNormApplyBF16(n, c, hw int, x []uint16, mean, invstd, gamma, beta []float32, residual []uint16, relu bool, y []uint16) {
	floor := float32(math.Inf(-1))
	if relu {
		floor = 0
	}
	var scale, shift [applyChannels]float32
	for lo := 0; lo < c; lo += applyChannels {
		hi := min(lo+applyChannels, c)
		affines(lo, hi, invstd, gamma, beta, scale[:], shift[:])
		if kernel.HasBF16() && appliedInPixels[float32](n, hw) && (relu || residual == nil) {
			at := lo * hw
			halfPixelApply(tensor.BF16, n, c, hw, hi-lo, x[at:], mean[lo:], scale[:], shift[:], from(residual, at), relu, y[at:])
			continue
		}
		for i := range n {
			at := (i*c + lo) * hw
			normPlanesBF16(hi-lo, hw, x[at:], from(residual, at), mean[lo:], scale[:], shift[:], floor, y[at:])
		}
	}
}

// BatchNormGradBF16Of is the backward pass of the channels [lo, hi) of c: from x,
// mean, invstd and dy it overwrites dx, rounded once, and writes or adds dgamma and
// dbeta (each may be nil, as gamma may). y, if not nil, is the output of a ReLU
// behind the norm: dy counts where it is not ≤ 0. d, if not nil, receives that part
// of dy, the gradient of a residual. dx may be dy or x.
func BatchNormGradBF16Of(lo, hi, n, c, hw int, x, y, dy []uint16, mean, invstd, gamma []float32, dx []uint16, dgamma, dbeta []float32, d []uint16, accumulate bool) {
	g := normGate{hw: hw, y: y, dy: dy}
	if d != nil {
		g.y, g.dy = nil, d
	}
	for block := channelBlock(n, hw, 3); lo < hi; lo += block {
		g.block(lo, min(lo+block, hi), n, c, x, dy, y, mean, invstd, gamma, dx, dgamma, dbeta, d, accumulate)
	}
}

// block takes the sums of a block of channels, and then their dx.
func (g *normGate) block(lo, hi, n, c int, x, dy, y []uint16, mean, invstd, gamma []float32, dx []uint16, dgamma, dbeta []float32, d []uint16, accumulate bool) {
	var sums, dots [mostChannels]float64
	hw := g.hw
	for i := range n {
		at, size := (i*c+lo)*hw, (hi-lo)*hw
		if d != nil {
			elementwise.ReLUGradBF16(y[at:][:size], dy[at:][:size], d[at:][:size])
		}
		g.sums(i*c+lo, x[at:][:size], mean[lo:hi], c*hw, &sums, &dots)
	}
	var scale, slope, offset [mostChannels]float32
	BatchNormGradAffine(lo, hi, sums[:], dots[:], invstd, dgamma, dbeta, accumulate)
	for ch := lo; ch < hi; ch++ {
		j := ch - lo
		scale[j], slope[j], offset[j] = normSlope(float64(n*hw), sums[j], dots[j], mean[ch], invstd[ch], gamma, ch)
	}
	for i := range n {
		at, size := (i*c+lo)*hw, (hi-lo)*hw
		g.input(i*c+lo, x[at:][:size], scale[:hi-lo], slope[:hi-lo], offset[:hi-lo], dx[at:][:size])
	}
}

// normGate is a gradient, and what lets it through if that is not all of it.
type normGate struct {
	hw    int
	y, dy []uint16
}

// plane is plane i of both, and the bytes from a gate of 32 pixels to the next.
func (g *normGate) plane(i int) (dy, gate *uint16, step int) {
	at := i * g.hw
	dy = &g.dy[at:][:g.hw][0]
	if g.y == nil {
		return dy, &openGate[0], 0
	}
	return dy, &g.y[at:][:g.hw][0], 2 * kernel.PairLanes
}

// vectorsBF16 reports whether planes of hw pixels have vector kernels, which take pixels in pairs.
func vectorsBF16(hw int) bool { return kernel.HasBF16() && hw%2 == 0 && hw > 0 }

// normPlanesBF16 computes y = max((x−mean)·scale + shift + r, floor) of planes that lie side by side; r may be nil.
func normPlanesBF16(planes, hw int, x, r []uint16, mean, scale, shift []float32, floor float32, y []uint16) {
	if vectorsBF16(hw) {
		if r != nil {
			vecHalfNormAddRows(planes, &x[0], &r[0], &mean[0], &scale[0], &shift[0], floor, &y[0], hw/2, aheadBF16)
		} else {
			vecHalfNormRows(planes, &x[0], &mean[0], &scale[0], &shift[0], floor, &y[0], hw/2, aheadBF16)
		}
		return
	}
	for i := range planes {
		at := i * hw
		normPlaneBF16(x[at:][:hw], part(r, at, hw), mean[i], scale[i], shift[i], floor, y[at:][:hw])
	}
}

// aheadBF16 is how many bytes ahead of a pass over images their memory is prefetched: two pages, at whose ends the hardware stops.
const aheadBF16 = 8192

// normPlaneBF16 is normPlanesBF16 of one plane without vectors.
func normPlaneBF16(x, r []uint16, mean, scale, shift, floor float32, y []uint16) {
	for i, h := range x {
		v := float32((tensor.F32FromBF16(h)-mean)*scale) + shift
		if r != nil {
			v += tensor.F32FromBF16(r[i])
		}
		if v < floor { // a NaN stays
			v = floor
		}
		y[i] = kernel.RoundBF16(v)
	}
}

// passed is element j of plane i of dy, or 0 where the gate is closed.
func (g *normGate) passed(i, j int) float32 {
	at := i*g.hw + j
	if g.y != nil && tensor.F32FromBF16(g.y[at]) <= 0 {
		return 0
	}
	return tensor.F32FromBF16(g.dy[at])
}

// sums adds Σdy and Σdy·(x−mean) of the planes from i on, one for each mean. The planes to come are so many elements ahead.
func (g *normGate) sums(i int, x []uint16, mean []float32, ahead int, sums, dots *[mostChannels]float64) {
	if vectorsBF16(g.hw) {
		var sum, dot channelValues
		from, gate, step := g.plane(i)
		vecHalfNormSumsRows(len(mean), &x[0], from, gate, step, &mean[0], g.hw/2, 2*ahead, &sum[0], &dot[0])
		for ch := range mean {
			sums[ch] += float64(sum[ch])
			dots[ch] += float64(dot[ch])
		}
		return
	}
	for ch := range mean {
		var sum, dot float64
		for j, h := range x[ch*g.hw:][:g.hw] {
			d := float64(g.passed(i+ch, j))
			sum += d
			dot += d * (float64(tensor.F32FromBF16(h)) - float64(mean[ch]))
		}
		sums[ch] += sum
		dots[ch] += dot
	}
}

// input computes dx = dy·scale + x·slope + offset of the planes from i on, one for each factor.
func (g *normGate) input(i int, x []uint16, scale, slope, offset []float32, dx []uint16) {
	if vectorsBF16(g.hw) {
		from, gate, step := g.plane(i)
		vecHalfNormGradRows(len(scale), &x[0], from, gate, step, &scale[0], &slope[0], &offset[0], &dx[0], g.hw/2)
		return
	}
	for ch := range scale {
		at := ch * g.hw
		for j, h := range x[at:][:g.hw] {
			dx[at+j] = kernel.RoundBF16(g.passed(i+ch, j)*scale[ch] + (tensor.F32FromBF16(h)*slope[ch] + offset[ch]))
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
