package conv

import (
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/elementwise"
	"github.com/trainctl/trainctl/core/engine/kernel/gemm"
)

// The convolution for every geometry and type: the patches that a block of
// output pixels looks at become the columns of a matrix (im2col, Chellapilla,
// Puri and Simard, 2006), some channels at a time, and Gemm does the rest. Blocks
// run over rows of all images, so that small images fill them as well as large ones.
// The gradient for the input of a strided convolution is one with stride 1 for
// every phase of a pixel's position, with those taps that reach it.

// Bounds of a block: its pixels, a single row aside, and the rows of its matrix,
// a single channel aside. The matrix and what Gemm makes of it stay in L2.
const (
	im2colPixels = 384
	im2colTaps   = 256
)

// axis says where one dimension of an image meets the taps: output j and tap t
// look at input j·stride + first + t·step.
type axis struct{ in, out, stride, taps, first, step int }

// least is what output 0 sees through the tap that looks back furthest.
func (a *axis) least() int { return a.first + min(0, (a.taps-1)*a.step) }

// reach is how many inputs one output looks over.
func (a *axis) reach() int { return (a.taps-1)*max(a.step, -a.step) + 1 }

// span is how many inputs n outputs look over.
func (a *axis) span(n int) int { return (n-1)*a.stride + a.reach() }

// tap is the distance of tap t from least.
func (a *axis) tap(t int) int { return a.first + t*a.step - a.least() }

// im2colCall is one convolution of a group of channels of each image.
type im2colCall struct {
	images, between int // elements of all channels of an image
	channels        int
	vert, hori      axis
	rows            int // of pixels in a block, counted over all images
	chunk           int // channels in a block
	width, line     int // of a row of a frame, for one phase of the stride and for all
}

func newIm2col(images, between, channels int, vert, hori axis) im2colCall {
	c := im2colCall{images: images, between: between, channels: channels, vert: vert, hori: hori}
	c.rows = min(images*vert.out, max(1, im2colPixels/hori.out))
	taps := min(im2colTaps, im2colTaps*im2colPixels/c.pixels())
	c.chunk = min(channels, max(1, taps/c.taps()))
	c.width = kernel.CeilDiv(hori.span(hori.out), hori.stride)
	c.line = hori.stride * c.width
	return c
}

// inputIm2col are those of one group of x.
func (p *Shape) inputIm2col() im2colCall {
	return newIm2col(p.N, p.C*p.H*p.W, p.C/p.groups(),
		axis{p.H, p.OutH(), p.StrideH, p.R, -p.PadH, p.dilH()}, axis{p.W, p.OutW(), p.StrideW, p.S, -p.PadW, p.dilW()})
}

// pixels is the number of columns of a full block.
func (c *im2colCall) pixels() int { return c.rows * c.hori.out }

func (c *im2colCall) taps() int { return c.vert.taps * c.hori.taps }

// frameElems is the room for what a block looks at of one channel: a band of rows for every image.
func (c *im2colCall) frameElems() int {
	bands := min(c.rows, (c.rows-1)/c.vert.out+2)
	return (c.rows*c.vert.stride+bands*max(0, c.vert.reach()-c.vert.stride))*c.line + runLength
}

func (c *im2colCall) columnElems() int { return c.chunk*c.taps()*c.pixels() + runLength }

// room is that for frames, columns and m planes of a block.
func (c *im2colCall) room(m int) int { return c.frameElems() + c.columnElems() + m*c.pixels() }

// scratch is what im2colProduct needs for m planes.
func (c *im2colCall) scratch(m int) int {
	return c.room(m) + gemm.GemmScratch(m, c.pixels(), c.chunk*c.taps())
}

// phase is one remainder of a pixel's position modulo the stride: the first such
// pixel, how many there are, and the taps that reach them, every some of which step back in dy.
type phase struct {
	pixel, pixels         int
	firstTap, everyTap, n int
	axis                  axis
}

// phases calls f for every pair of phases that some tap reaches.
func (p *Shape) phases(f func(h, w phase)) {
	for a := range p.StrideH {
		h := newPhase(a, p.H, p.OutH(), p.StrideH, p.PadH, p.R, p.dilH())
		for b := range p.StrideW {
			w := newPhase(b, p.W, p.OutW(), p.StrideW, p.PadW, p.S, p.dilW())
			if h.n > 0 && w.n > 0 && h.pixels > 0 && w.pixels > 0 {
				f(h, w)
			}
		}
	}
}

// newPhase finds the pixels i with (i + pad) mod stride = a, and the taps with
// t·dil mod stride = a: pixel i and tap t meet dy at (i + pad − t·dil) / stride.
func newPhase(a, in, out, stride, pad, taps, dil int) phase {
	h := phase{pixel: ((a-pad)%stride + stride) % stride}
	h.pixels = max(0, kernel.CeilDiv(in-h.pixel, stride))
	for t := range taps {
		if t*dil%stride != a {
			continue
		}
		if h.n++; h.n == 1 {
			h.firstTap = t
		} else if h.n == 2 {
			h.everyTap = t - h.firstTap
		}
	}
	h.axis = axis{in: out, out: h.pixels, stride: 1, taps: h.n, first: (h.pixel + pad - h.firstTap*dil) / stride, step: -h.everyTap * dil / stride}
	return h
}

// phaseIm2col are those of one group of dy that give a phase of dx.
func (p *Shape) phaseIm2col(h, w phase) im2colCall {
	return newIm2col(p.N, p.K*p.OutH()*p.OutW(), p.K/p.groups(), h.axis, w.axis)
}

// transposeWeights writes the weights of a phase's taps as [C, K, taps]. It takes 16
// of K at a time, so that what it reads comes in few streams.
func transposeWeights[T kernel.Float](p *Shape, h, v phase, w, transposed []T) {
	cg, kg, n := p.C/p.groups(), p.K/p.groups(), h.n*v.n
	step := p.patch()
	for first := 0; first < kg; first += 16 {
		for c := range cg {
			to := transposed[(c*kg+first)*n:][:min(16, kg-first)*n]
			from := w[(first*cg+c)*p.R*p.S:]
			for r := range h.n {
				for s := range v.n {
					at := (h.firstTap+r*h.everyTap)*p.S + v.firstTap + s*v.everyTap
					for i := r*v.n + s; i < len(to); i += n {
						to[i] = from[at]
						at += step
					}
				}
			}
		}
	}
}

func im2colScratch(p *Shape) int {
	c := p.inputIm2col()
	return c.scratch(p.K / p.groups())
}

func im2colGradWeightScratch(p *Shape) int {
	c, kg := p.inputIm2col(), p.K/p.groups()
	return c.room(kg) + gemm.GemmScratch(kg, c.chunk*c.taps(), c.pixels())
}

// im2colGradInputScratch has room for transposed weights besides.
func im2colGradInputScratch(p *Shape) int {
	n := 0
	p.phases(func(h, w phase) {
		c := p.phaseIm2col(h, w)
		n = max(n, c.scratch(p.C/p.groups())+p.C/p.groups()*c.channels*c.taps())
	})
	return n
}

func im2colForward[T kernel.Float](p *Shape, x, w, bias, y, scratch []T) {
	kg, c := p.K/p.groups(), p.inputIm2col()
	out := im2colPlanes{p.OutH(), p.OutW(), p.K * p.OutH() * p.OutW(), 0, 1, 0, 1}
	for g := range p.groups() {
		var b []T
		if bias != nil {
			b = bias[g*kg:][:kg]
		}
		im2colProduct(&c, kg, w[g*kg*p.patch():], x[g*c.channels*p.H*p.W:], b, &out, y[g*kg*out.h*out.w:], scratch)
	}
}

func im2colGradInput[T kernel.Float](p *Shape, dy, w, dx, scratch []T) {
	cg, kg := p.C/p.groups(), p.K/p.groups()
	reached := 0
	p.phases(func(_, _ phase) { reached++ })
	if reached < p.StrideH*p.StrideW { // by few taps, or by a dilation with a factor of the stride
		clear(dx[:p.N*p.C*p.H*p.W])
	}
	p.phases(func(h, v phase) {
		c, out := p.phaseIm2col(h, v), im2colPlanes{p.H, p.W, p.C * p.H * p.W, h.pixel, p.StrideH, v.pixel, p.StrideW}
		transposed := scratch[:cg*kg*c.taps()]
		for g := range p.groups() {
			transposeWeights(p, h, v, w[g*kg*p.patch():], transposed)
			im2colProduct(&c, cg, transposed, dy[g*kg*p.OutH()*p.OutW():], nil, &out, dx[g*cg*p.H*p.W:], scratch[len(transposed):])
		}
	})
}

// im2colProduct computes m planes of every image from a [m, channels·taps] and
// the columns of x, and adds bias if there is any.
func im2colProduct[T kernel.Float](c *im2colCall, m int, a, x, bias []T, out *im2colPlanes, y, scratch []T) {
	frames, scratch := scratch[:c.frameElems()], scratch[c.frameElems():]
	columns, scratch := scratch[:c.columnElems()], scratch[c.columnElems():]
	block, scratch := scratch[:m*c.pixels()], scratch[m*c.pixels():]
	lda := c.channels * c.taps()
	for first := 0; first < c.images*c.vert.out; first += c.rows {
		end := min(first+c.rows, c.images*c.vert.out)
		n := (end - first) * c.hori.out
		var beta T
		if bias != nil {
			beta = 1
			for i := range m {
				elementwise.Fill(block[i*n:][:n], bias[i])
			}
		}
		for ch := 0; ch < c.channels; ch += c.chunk {
			count := min(c.chunk, c.channels-ch)
			im2col(c, x, ch, count, first, end, frames, columns)
			gemm.Gemm(false, false, m, n, count*c.taps(), 1, a[ch*c.taps():], lda, columns, n, beta, block, n, scratch)
			beta = 1
		}
		moveRows(c, out, m, first, end, block, y, false)
	}
}

func im2colGradWeight[T kernel.Float](p *Shape, x, dy, dw, scratch []T, accumulate bool) {
	kg, c, size := p.K/p.groups(), p.inputIm2col(), p.patch()
	out := im2colPlanes{p.OutH(), p.OutW(), p.K * p.OutH() * p.OutW(), 0, 1, 0, 1}
	frames, scratch := scratch[:c.frameElems()], scratch[c.frameElems():]
	columns, scratch := scratch[:c.columnElems()], scratch[c.columnElems():]
	block, scratch := scratch[:kg*c.pixels()], scratch[kg*c.pixels():]
	if !accumulate {
		clear(dw[:p.K*size])
	}
	for g := range p.groups() {
		for first := 0; first < p.N*out.h; first += c.rows {
			end := min(first+c.rows, p.N*out.h)
			n := (end - first) * out.w
			moveRows(&c, &out, kg, first, end, block, dy[g*kg*out.h*out.w:], true)
			for ch := 0; ch < c.channels; ch += c.chunk {
				count := min(c.chunk, c.channels-ch)
				im2col(&c, x[g*c.channels*p.H*p.W:], ch, count, first, end, frames, columns)
				gemm.Gemm(false, true, kg, count*c.taps(), n, 1, block, n, columns, n, 1, dw[g*kg*size+ch*c.taps():], size, scratch)
			}
		}
	}
}

// im2colPlanes says where the planes of the result lie: of h×w pixels, image
// after image, of which those at rows h0, h0+stepH, … and columns likewise belong to this product.
type im2colPlanes struct{ h, w, between, h0, stepH, w0, stepW int }

// moveRows copies a block [m, pixels] to the planes of y, or back.
func moveRows[T kernel.Float](c *im2colCall, o *im2colPlanes, m, first, end int, block, y []T, back bool) {
	n, wide := (end-first)*c.hori.out, c.hori.out
	for row := first; row < end; {
		s := bandAt(first, row, end, c.vert.out)
		row += s.rows
		for i := range m {
			plane, part := y[s.image*o.between+i*o.h*o.w:][:o.h*o.w], block[i*n+s.before*wide:][:s.rows*wide]
			switch {
			case back:
				copy(part, plane[s.row*wide:])
			case o.stepH == 1 && o.stepW == 1:
				copy(plane[s.row*wide:], part)
			default:
				spreadRows(o, plane, s.row, part, wide)
			}
		}
	}
}

// spreadRows writes rows from row on, wide pixels each, to the places of a phase.
func spreadRows[T kernel.Float](o *im2colPlanes, plane []T, row int, part []T, wide int) {
	for ; len(part) > 0; part = part[wide:] {
		dst := plane[(o.h0+row*o.stepH)*o.w+o.w0:]
		row++
		if o.stepW == 2 && kernel.Is32[T]() && kernel.Current() == kernel.AVX512 {
			vecSpreadPairs(wide, &kernel.As32(part)[0], &kernel.As32(dst)[0])
			continue
		}
		for j, v := range part[:wide] {
			dst[j*o.stepW] = v
		}
	}
}
