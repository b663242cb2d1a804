package conv

import (
	"fmt"

	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/elementwise"
	"github.com/trainctl/trainctl/core/engine/kernel/reduce"
)

// Conv is the geometry of a two-dimensional convolution (cross-correlation, as
// in PyTorch's conv2d): N images of C×H×W, K filters of C/Groups×R×S. x is
// [N, C, H, W], w [K, C/Groups, R, S], bias [K], y [N, K, OutH, OutW].
// A zero dilation or group count means 1. Padding may be multiplied like any
// other zero: an infinite weight or gradient there gives NaN, as in PyTorch. So may an
// infinite input in the weight gradient of its channel, if a convolution is depthwise.
type Shape struct {
	N, C, H, W, K, R, S                              int
	StrideH, StrideW, PadH, PadW, DilH, DilW, Groups int
}

// OutH is the height of the output.
func (p *Shape) OutH() int { return (p.H+2*p.PadH-p.dilH()*(p.R-1)-1)/p.StrideH + 1 }

// OutW is the width of the output.
func (p *Shape) OutW() int { return (p.W+2*p.PadW-p.dilW()*(p.S-1)-1)/p.StrideW + 1 }

func (p *Shape) dilH() int   { return max(p.DilH, 1) }
func (p *Shape) dilW() int   { return max(p.DilW, 1) }
func (p *Shape) groups() int { return max(p.Groups, 1) }

// patch is the number of inputs that one output depends on.
func (p *Shape) patch() int { return p.C / p.groups() * p.R * p.S }

// Validate says what is wrong with the geometry, if anything.
func (p *Shape) Validate() error {
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

// Scratch is the number of scratch elements that is enough for each of the
// convolution kernels.
func Scratch[T kernel.Float](p *Shape) int {
	return max(ForwardScratch[T](p), GradInputScratch[T](p), GradWeightScratch[T](p))
}

// ForwardScratch is the number of scratch elements that Forward needs at the
// active level, and enough for fewer images of the same geometry.
func ForwardScratch[T kernel.Float](p *Shape) int { return scratch[T](p, ToOutput, im2colScratch) }

// GradInputScratch is ForwardScratch for GradInput.
func GradInputScratch[T kernel.Float](p *Shape) int {
	return scratch[T](p, ToInput, im2colGradInputScratch)
}

// GradWeightScratch is ForwardScratch for GradWeight.
func GradWeightScratch[T kernel.Float](p *Shape) int {
	return scratch[T](p, ToWeight, im2colGradWeightScratch)
}

// scratch is that of the algorithm that computes a direction.
func scratch[T kernel.Float](p *Shape, d Direction, columns func(*Shape) int) int {
	switch choose[T](p, d) {
	case Winograd:
		return winogradScratch[float32](p)
	case Direct:
		return directionScratch(p, d)
	case Product:
		return productScratch(p, d)
	case Planes:
		return planesScratch(p, d)
	case Lanes:
		return p.lanesWeightScratch()
	}
	return columns(p)
}

// Forward computes y = conv(x, w) + bias; bias may be nil.
func Forward[T kernel.Float](p *Shape, x, w, bias, y, scratch []T) {
	switch choose[T](p, ToOutput) {
	case Winograd:
		winogradForward(p, kernel.As32(x), kernel.As32(w), kernel.As32(bias), kernel.As32(y), kernel.As32(scratch))
	case Direct:
		directForward(p, kernel.As32(x), kernel.As32(w), kernel.As32(bias), kernel.As32(y), kernel.As32(scratch))
	case Product:
		productForward(p, kernel.As32(x), kernel.As32(w), kernel.As32(bias), kernel.As32(y), kernel.As32(scratch))
	case Planes:
		planesForward(p, kernel.As32(x), kernel.As32(w), kernel.As32(bias), kernel.As32(y), kernel.As32(scratch))
	default:
		im2colForward(p, x, w, bias, y, scratch)
	}
}

// GradInput computes the gradient with respect to x from dy and w, and overwrites dx.
func GradInput[T kernel.Float](p *Shape, dy, w, dx, scratch []T) {
	switch choose[T](p, ToInput) {
	case Winograd:
		winogradGradInput(p, kernel.As32(dy), kernel.As32(w), kernel.As32(dx), kernel.As32(scratch))
	case Direct:
		directGradInput(p, kernel.As32(dy), kernel.As32(w), kernel.As32(dx), kernel.As32(scratch))
	case Product:
		productGradInput(p, kernel.As32(dy), kernel.As32(w), kernel.As32(dx), kernel.As32(scratch))
	case Planes:
		planesGradInput(p, kernel.As32(dy), kernel.As32(w), kernel.As32(dx), kernel.As32(scratch))
	default:
		im2colGradInput(p, dy, w, dx, scratch)
	}
}

// GradWeight computes the gradient with respect to w from x and dy, and writes or adds it to dw.
func GradWeight[T kernel.Float](p *Shape, x, dy, dw, scratch []T, accumulate bool) {
	switch choose[T](p, ToWeight) {
	case Winograd:
		winogradGradWeight(p, kernel.As32(x), kernel.As32(dy), kernel.As32(dw), kernel.As32(scratch), accumulate)
	case Direct:
		directGradWeight(p, kernel.As32(x), kernel.As32(dy), kernel.As32(dw), kernel.As32(scratch), accumulate)
	case Product:
		productGradWeight(p, kernel.As32(x), kernel.As32(dy), kernel.As32(dw), kernel.As32(scratch), accumulate)
	case Planes:
		planesGradWeight(p, kernel.As32(x), kernel.As32(dy), kernel.As32(dw), kernel.As32(scratch), accumulate)
	case Lanes:
		lanesGradWeight(p, kernel.As32(x), kernel.As32(dy), kernel.As32(dw), kernel.As32(scratch), accumulate)
	default:
		im2colGradWeight(p, x, dy, dw, scratch, accumulate)
	}
}

// GradBias sums dy over images and pixels, and writes or adds it to db. The sum over images
// runs in float64, and so does that over pixels of large images.
func GradBias[T kernel.Float](p *Shape, dy, db []T, accumulate bool) {
	const block = planesAtOnce
	var planes [block]T
	hw := p.OutH() * p.OutW()
	for lo := 0; lo < p.K; lo += block {
		var sums [block]float64
		count := min(block, p.K-lo)
		for n := range p.N {
			planeSums(count, hw, dy[(n*p.K+lo)*hw:], planes[:], &sums)
		}
		for k, sum := range sums[:count] {
			if accumulate {
				sum += float64(db[lo+k])
			}
			db[lo+k] = T(sum)
		}
	}
}

// planesAtOnce is how many channels' sums GradBias keeps.
const planesAtOnce = 256

// planeSums adds the sum of each of count planes of hw pixels to sums. planes is room.
func planeSums[T kernel.Float](count, hw int, dy, planes []T, sums *[planesAtOnce]float64) {
	const large = 1024
	if hw > large || !kernel.Is32[T]() {
		for k := range count {
			sums[k] += reduce.Sum64(dy[k*hw:][:hw])
		}
		return
	}
	elementwise.RowSums(count, hw, dy, planes)
	for k, v := range planes[:count] {
		sums[k] += float64(v)
	}
}

// taps calls f for every product of the convolution: the offsets into x, w and y that meet.
func (p *Shape) taps(f func(x, w, y int)) {
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

func (p *Shape) rowTaps(xc, w, yk, r, s int, f func(x, w, y int)) {
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

func convRef[T kernel.Float](p *Shape, x, w, bias, y []T) {
	hw := p.OutH() * p.OutW()
	for i := range p.N * p.K {
		var b T
		if bias != nil {
			b = bias[i%p.K]
		}
		elementwise.Fill(y[i*hw:][:hw], b)
	}
	p.taps(func(xi, wi, yi int) { y[yi] += x[xi] * w[wi] })
}

func convGradInputRef[T kernel.Float](p *Shape, dy, w, dx []T) {
	clear(dx[:p.N*p.C*p.H*p.W])
	p.taps(func(xi, wi, yi int) { dx[xi] += dy[yi] * w[wi] })
}

func convGradWeightRef[T kernel.Float](p *Shape, x, dy, dw []T, accumulate bool) {
	if !accumulate {
		clear(dw[:p.K*p.C/p.groups()*p.R*p.S])
	}
	p.taps(func(xi, wi, yi int) { dw[wi] += x[xi] * dy[yi] })
}
