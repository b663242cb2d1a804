package direct

import "github.com/trainctl/trainctl/core/engine/kernel/conv/geometry"

// The weight gradient of a convolution with stride 1 is also that of another one, which sees dy and whose outputs are x:
//
//	dw[k, c, r, s] = Σ dy[k, i, j] · x[c, i+r-p, j+s-p] = Σ x[c, i, j] · dy[k, i+(R-1-r)-q, j+(S-1-s)-q], q = R-1-p,
//
// so the filters of the other one are turned by half, and its padding is what p leaves of them. It copies the channels of dy
// instead of those of x, and fills its tiles with rows of x: that is for a few filters of many channels.

// fewFilters bounds the filters of a group of those that are mirrored, as their weights are turned one by one.
const fewFilters = 8

// mirror is the other convolution, if it takes less time, for any number of images.
func mirror(p *geometry.Shape) (q geometry.Shape, ok bool) {
	if kg := p.K / p.GroupCount(); kg > fewFilters || 2*kg > p.C/p.GroupCount() || !p.Stride1() {
		return q, false
	}
	q = *p
	q.C, q.H, q.W, q.K = p.K, p.OutH(), p.OutW(), p.C
	q.PadH, q.PadW = p.DilationH()*(p.R-1)-p.PadH, p.DilationW()*(p.S-1)-p.PadW
	return q, mirrored.Of(p, geometry.ToWeight, func() bool { return paysToMirror(*p, q) })
}

// mirrored are the shapes of which the other convolution takes less time.
var mirrored geometry.Memo[bool]

func paysToMirror(p, q geometry.Shape) bool {
	if q.PadH < 0 || q.PadW < 0 || !q.FitsFrame() || !takesWeight(&q) {
		return false
	}
	p.N, q.N = manyImages, manyImages
	t, u := ownWeightTerms(&p), mirroredTerms(&q)
	return Rates.Cycles(&u) < Rates.Cycles(&t)
}

// mirroredElems is the weights of a group that are turned.
func mirroredElems(q *geometry.Shape) int { return q.K * q.PatchSize() }

// gradWeightMirrored is GradWeight by the other convolution.
func gradWeightMirrored(p, q *geometry.Shape, x, dy, dw, scratch []float32, accumulate bool) {
	turned, rest := scratch[:mirroredElems(q)], scratch[mirroredElems(q):]
	gradWeight(q, dy, x, turned, rest, false)
	g := p.GroupCount()
	filters, channels, taps := p.K/g, p.C/g, p.R*p.S
	for i := range p.K * channels {
		k, c := i/channels, i%channels
		to := dw[i*taps:][:taps]
		from := turned[((k/filters*channels+c)*filters+k%filters)*taps:][:taps]
		for t := range to {
			v := from[taps-1-t]
			if accumulate {
				v += to[t]
			}
			to[t] = v
		}
	}
}
