package kernel

import "fmt"

// Conv is the geometry of a two-dimensional convolution (cross-correlation, as
// in PyTorch's conv2d): N images of C×H×W, K filters of C/Groups×R×S. x is
// [N, C, H, W], w [K, C/Groups, R, S], bias [K], y [N, K, OutH, OutW].
// A zero dilation or group count means 1. Padding may be multiplied like any
// other zero: an infinite weight or gradient there gives NaN, as in PyTorch.
type Conv struct {
	N, C, H, W, K, R, S                              int
	StrideH, StrideW, PadH, PadW, DilH, DilW, Groups int
}

// OutH is the height of the output.
func (p *Conv) OutH() int { return (p.H+2*p.PadH-p.dilH()*(p.R-1)-1)/p.StrideH + 1 }

// OutW is the width of the output.
func (p *Conv) OutW() int { return (p.W+2*p.PadW-p.dilW()*(p.S-1)-1)/p.StrideW + 1 }

func (p *Conv) dilH() int   { return max(p.DilH, 1) }
func (p *Conv) dilW() int   { return max(p.DilW, 1) }
func (p *Conv) groups() int { return max(p.Groups, 1) }

// patch is the number of inputs that one output depends on.
func (p *Conv) patch() int { return p.C / p.groups() * p.R * p.S }

// Validate says what is wrong with the geometry, if anything.
func (p *Conv) Validate() error {
	switch g := p.groups(); {
	case min(p.N, p.C, p.H, p.W, p.K, p.R, p.S) < 1:
		return fmt.Errorf("convolution: sizes have to be positive: input [%d, %d, %d, %d], %d filters of %d×%d", p.N, p.C, p.H, p.W, p.K, p.R, p.S)
	case min(p.StrideH, p.StrideW) < 1:
		return fmt.Errorf("convolution: stride %d×%d has to be positive", p.StrideH, p.StrideW)
	case min(p.PadH, p.PadW, p.DilH, p.DilW, p.Groups) < 0:
		return fmt.Errorf("convolution: padding %d×%d, dilation %d×%d and groups %d must not be negative", p.PadH, p.PadW, p.DilH, p.DilW, p.Groups)
	case p.C%g != 0 || p.K%g != 0:
		return fmt.Errorf("convolution: %d input and %d output channels do not divide into %d groups", p.C, p.K, g)
	case p.H+2*p.PadH < p.dilH()*(p.R-1)+1 || p.W+2*p.PadW < p.dilW()*(p.S-1)+1:
		return fmt.Errorf("convolution: the %d×%d filter (dilation %d×%d) is larger than the padded %d×%d input",
			p.R, p.S, p.dilH(), p.dilW(), p.H+2*p.PadH, p.W+2*p.PadW)
	}
	return nil
}

// ConvScratch is the number of scratch elements that is enough for each of the
// convolution kernels.
func ConvScratch[T Float](p *Conv) int {
	return max(ConvForwardScratch[T](p), ConvGradInputScratch[T](p), ConvGradWeightScratch[T](p))
}

// ConvForwardScratch is the number of scratch elements that Conv2D needs at the
// active level, and enough for fewer images of the same geometry.
func ConvForwardScratch[T Float](p *Conv) int {
	switch {
	case is32[T]() && p.minimal():
		return minimalScratch[float32](p)
	case is32[T]() && p.direct():
		return directScratch(p, p.inputFrame(), p.K/p.groups(), p.OutH(), p.OutW())
	}
	return columnScratch(p)
}

// ConvGradInputScratch is ConvForwardScratch for Conv2DGradInput.
func ConvGradInputScratch[T Float](p *Conv) int {
	switch {
	case is32[T]() && p.minimal():
		return minimalScratch[float32](p)
	case is32[T]() && p.direct():
		return directScratch(p, p.gradFrame(), p.C/p.groups(), p.H, p.W)
	}
	return columnGradInputScratch(p)
}

// ConvGradWeightScratch is ConvForwardScratch for Conv2DGradWeight.
func ConvGradWeightScratch[T Float](p *Conv) int {
	switch {
	case is32[T]() && p.minimal():
		return minimalScratch[float32](p)
	case is32[T]() && p.directWeight():
		return p.patch() + p.gradBatch()*(p.inputFrame().elems()+p.stepElems())
	}
	return columnGradWeightScratch(p)
}

// Conv2D computes y = conv(x, w) + bias; bias may be nil.
func Conv2D[T Float](p *Conv, x, w, bias, y, scratch []T) {
	if is32[T]() && p.minimal() {
		minimalForward(p, as32(x), as32(w), as32(bias), as32(y), as32(scratch))
		return
	}
	if is32[T]() && p.direct() {
		directForward(p, as32(x), as32(w), as32(bias), as32(y), as32(scratch))
		return
	}
	columnForward(p, x, w, bias, y, scratch)
}

// Conv2DGradInput computes the gradient with respect to x from dy and w, and overwrites dx.
func Conv2DGradInput[T Float](p *Conv, dy, w, dx, scratch []T) {
	if is32[T]() && p.minimal() {
		minimalGradInput(p, as32(dy), as32(w), as32(dx), as32(scratch))
		return
	}
	if is32[T]() && p.direct() {
		directGradInput(p, as32(dy), as32(w), as32(dx), as32(scratch))
		return
	}
	columnGradInput(p, dy, w, dx, scratch)
}

// Conv2DGradWeight computes the gradient with respect to w from x and dy, and writes or adds it to dw.
func Conv2DGradWeight[T Float](p *Conv, x, dy, dw, scratch []T, accumulate bool) {
	if is32[T]() && p.minimal() {
		minimalGradWeight(p, as32(x), as32(dy), as32(dw), as32(scratch), accumulate)
		return
	}
	if is32[T]() && p.directWeight() {
		directGradWeight(p, as32(x), as32(dy), as32(dw), as32(scratch), accumulate)
		return
	}
	columnGradWeight(p, x, dy, dw, scratch, accumulate)
}

// Conv2DGradBias sums dy over images and pixels, and writes or adds it to db. The sum runs in float64.
func Conv2DGradBias[T Float](p *Conv, dy, db []T, accumulate bool) {
	hw := p.OutH() * p.OutW()
	for k := range p.K {
		var sum float64
		for n := range p.N {
			sum += sum64(dy[(n*p.K+k)*hw:][:hw])
		}
		if accumulate {
			sum += float64(db[k])
		}
		db[k] = T(sum)
	}
}

// taps calls f for every product of the convolution: the offsets into x, w and y that meet.
func (p *Conv) taps(f func(x, w, y int)) {
	oh, ow := p.OutH(), p.OutW()
	cg, kg := p.C/p.groups(), p.K/p.groups()
	for n := range p.N {
		for k := range p.K {
			for c := range cg {
				xc := (n*p.C + k/kg*cg + c) * p.H * p.W
				for r := range p.R {
					for s := range p.S {
						p.rowTaps(xc, ((k*cg+c)*p.R+r)*p.S+s, (n*p.K+k)*oh*ow, r, s, f)
					}
				}
			}
		}
	}
}

func (p *Conv) rowTaps(xc, w, yk, r, s int, f func(x, w, y int)) {
	oh, ow := p.OutH(), p.OutW()
	for i := range oh {
		h := i*p.StrideH - p.PadH + r*p.dilH()
		if h < 0 || h >= p.H {
			continue
		}
		for j := range ow {
			if v := j*p.StrideW - p.PadW + s*p.dilW(); v >= 0 && v < p.W {
				f(xc+h*p.W+v, w, yk+i*ow+j)
			}
		}
	}
}

func convRef[T Float](p *Conv, x, w, bias, y []T) {
	hw := p.OutH() * p.OutW()
	for i := range p.N * p.K {
		var b T
		if bias != nil {
			b = bias[i%p.K]
		}
		Fill(y[i*hw:][:hw], b)
	}
	p.taps(func(xi, wi, yi int) { y[yi] += x[xi] * w[wi] })
}

func convGradInputRef[T Float](p *Conv, dy, w, dx []T) {
	clear(dx[:p.N*p.C*p.H*p.W])
	p.taps(func(xi, wi, yi int) { dx[xi] += dy[yi] * w[wi] })
}

func convGradWeightRef[T Float](p *Conv, x, dy, dw []T, accumulate bool) {
	if !accumulate {
		clear(dw[:p.K*p.C/p.groups()*p.R*p.S])
	}
	p.taps(func(xi, wi, yi int) { dw[wi] += x[xi] * dy[yi] })
}
