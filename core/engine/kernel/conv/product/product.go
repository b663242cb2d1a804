package product

import (
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/geometry"
	"github.com/trainctl/trainctl/core/engine/kernel/gemm"
)

// Convolutions that are matrix products as they stand: no element of the input meets
// two outputs. That is so for filters of 1×1, for patches (the stride is the
// filter's size, or more) and for filters as large as the image. Each image is then a
// matrix with a row for every element of a filter and a column for every output pixel.
// With 1×1 filters and stride 1, and with one output pixel, it lies in x already; else
// it is copied, beside those of other images, which pays for images of few pixels, too
// (joined.go), and a part of the channels after the other (parts.go). With one pixel the whole batch is one product; else the micro-kernel
// of direct convolution goes over the pixels of all images, without a frame (tiles.go). Gradients of patches may have matrices with a row for every
// pixel instead (pixels.go).
//
// Filters that overlap on a few channels are such products as well, once what each output sees is copied.

// Takes reports whether a direction is such a product, or is computed as one.
func Takes(p *geometry.Shape, d geometry.Direction) bool {
	return isProduct(p) || d != geometry.ToInput && takesWindows(p)
}

// isProduct reports whether no element of the input meets two outputs.
func isProduct(p *geometry.Shape) bool {
	padded := p.PadH+p.PadW > 0
	return p.FitsTaps() && !(padded && p.OutH()*p.OutW() == 1) && (p.R == 1 || p.DilationH() == 1) && (p.S == 1 || p.DilationW() == 1) &&
		(p.StrideH >= p.R || p.OutH() == 1) && (p.StrideW >= p.S || p.OutW() == 1)
}

// What bounds windows that overlap: channels, of which more are computed faster without copies, and the matrix of an image, which stays in L2.
const (
	mostWindowChannels = 8
	mostWindowElems    = 1 << 17
)

// takesWindows reports whether the windows of outputs, which overlap, are copied: images of a few channels are soon a matrix, whose product leaves no
// lanes idle, whatever the stride, the padding and the width of the image.
func takesWindows(p *geometry.Shape) bool {
	pixels := p.OutH() * p.OutW()
	return p.C <= mostWindowChannels && p.GroupCount() == 1 && p.FitsWindows() && pixels > 1 && p.PatchSize()*pixels <= mostWindowElems
}

// patchesElems bounds the copies of images that are worked on at once, so that they stay in L2: with wide vectors two images of 14×14
// pixels and 256 rows, whose product leaves fewer lanes idle.
func patchesElems() int {
	if kernel.Lanes() < kernel.Block {
		return 1 << 16
	}
	return 100 << 10
}

// copiedPixels is how many are copied at once for weight gradients, if that many stay in L2: calls are few then.
const copiedPixels = 4 * deepPixels

// patches is x as matrices.
type patches struct {
	p             *geometry.Shape
	rows          int // of one group
	channels      int // whose rows are worked on at once: all, or those of a part
	pixels        int
	inPlace, back bool // back is for input gradients
	batch         int  // images that are copied at once; all of them if in place
	line, between int  // elements between the rows of a matrix, and between images
	taps          geometry.Taps
	turned        bool // the images of a batch are copied by windows, not by taps
	windows       geometry.Windows
	together      joined // images that are one product, but of weight gradients
}

// newPatches is for a direction of p.
func newPatches(p *geometry.Shape, d geometry.Direction) patches {
	m := patchesOf(p, d, channelsOf(p))
	if m.together = m.alone(); d != geometry.ToWeight {
		if n := min(m.batch, joins.Of(p, d, func() int { return joinOf(p, d) })); n > 1 {
			m.join(n)
		}
	}
	return m
}

// patchesOf is newPatches of images that are not joined, and of so many channels at once.
func patchesOf(p *geometry.Shape, d geometry.Direction, channels int) patches {
	m := patches{p: p, rows: p.PatchSize(), channels: channels, pixels: p.OutH() * p.OutW(), batch: p.N, back: d == geometry.ToInput}
	m.inPlace = p.PadH == 0 && p.PadW == 0 && (p.R == 1 && p.S == 1 && p.StrideH == 1 && p.StrideW == 1 || p.R == p.H && p.S == p.W)
	if m.inPlace {
		m.channels = p.C
	} else {
		if m.turned = m.turns(); m.turned {
			m.windows = geometry.NewWindows(p)
		} else {
			m.taps = geometry.NewTaps(p, m.back)
		}
		m.batch = min(p.N, max(1, patchesElems()/m.image()))
		if d == geometry.ToWeight && m.pixels > 1 {
			most := copiedPixels
			if m.inParts() {
				most = deepPixels // the batch is one product, for which dy is copied once
			}
			m.batch = min(m.batch, kernel.CeilDiv(most, m.pixels))
		}
	}
	m.setLine()
	return m
}

// sets is a distance of rows, in elements, whose multiples compete for a few sets of the L1 cache.
const sets = 1 << 8

// setLine follows from the images of a batch. Copies write a vector to each row in turn: where these lay multiples of sets apart, so that they
// compete for a few sets of the L1 cache, copying took three times as long.
func (m *patches) setLine() {
	m.line, m.between = m.pixels, m.image()
	if m.inPlace || m.pixels == 1 {
		return
	}
	m.line, m.between = kernel.CeilDiv(m.batch*m.pixels, kernel.Block)*kernel.Block+kernel.Block, m.pixels
	if m.line%sets == 0 {
		m.line += kernel.Block
	}
}

// copiedRows is the rows of the matrices of all groups that are copied at once.
func (m *patches) copiedRows() int { return m.channels * m.p.R * m.p.S }

// image is the elements of an image's matrices.
func (m *patches) image() int { return m.copiedRows() * m.pixels }

// matrixElems is the elements of the matrices of a batch that is copied.
func (m *patches) matrixElems() int {
	if m.pixels == 1 {
		return m.batch * m.image()
	}
	return m.copiedRows() * m.line
}

// copies is the room for the copies of a batch, or, in place, for the last image where
// vectors read beyond its end.
func (m *patches) copies() int {
	if !m.inPlace {
		if m.turned {
			return m.matrixElems() + m.windows.Elems()
		}
		return m.matrixElems() + max(2*m.foursElems(), m.taps.Elems()) + kernel.Block
	}
	if m.pixels%kernel.Lanes() != 0 && m.pixels > 1 {
		return m.image() + kernel.Block
	}
	return 0
}

// each calls f for every piece, with its matrices as copied from x.
func (m *patches) each(x, room []float32, f func(c piece, x []float32)) {
	p := m.p
	size := p.C * p.H * p.W
	switch {
	case m.turned:
		m.windows.SetTables(room[m.matrixElems():])
	case !m.inPlace:
		m.taps.SetTables(room[m.matrixElems():])
	}
	m.eachPiece(func(c piece) {
		switch {
		case m.inPlace:
			f(c, x[c.first*size:])
			return
		case m.turned:
			m.windows.Gather(c.images, c.channel, c.channels, x[c.first*size:], room, m.line)
		default:
			for i := range c.images {
				m.move(c.channels, x[m.at(c, i):], room, i)
			}
		}
		f(c, room)
	})
}

// Scratch is the number of scratch elements that a direction needs.
func Scratch(p *geometry.Shape, d geometry.Direction) int {
	if takesPixels(p, d) {
		b := newByPixel(p, d)
		return b.scratch(d)
	}
	m := newPatches(p, d)
	kg := p.K / p.GroupCount()
	if d == geometry.ToWeight && takesDots(p) {
		m = patchesOf(p, d, p.C)
		dots := newDotted(&m, kg)
		return m.copies() + dots.scratch()
	}
	n := m.copies()
	if m.pixels == 1 {
		return n + max(gemm.GemmScratch(m.batch, kg, m.rows), gemm.GemmScratch(m.batch, m.rows, kg), gemm.GemmScratch(kg, m.rows, m.batch))
	}
	switch d {
	case geometry.ToOutput:
		return n + m.rowsScratch(m.partRows(), kg)
	case geometry.ToInput:
		return n + m.rowsScratch(kg, m.partRows()) + kg*m.pixels + kernel.Block
	}
	return n + m.packedScratch(kg)
}

// packedScratch is the room of gradWeight beside copies.
func (m *patches) packedScratch(kg int) int {
	side := m.deep(kg)
	return side.elems(kg) + m.tallElems(&side) + gemm.GemmScratch(kg, m.partRows(), side.images*m.pixels)
}

// Forward computes y = conv(x, w) + bias; bias may be nil.
func Forward(p *geometry.Shape, x, w, bias, y, scratch []float32) {
	m, kg := newPatches(p, geometry.ToOutput), p.K/p.GroupCount()
	room, rest := scratch[:m.copies()], scratch[m.copies():]
	m.each(x, room, func(c piece, x []float32) {
		for g := range p.GroupCount() {
			filters, b := w[g*kg*m.rows:][:kg*m.rows], bias
			if b != nil {
				b = b[g*kg:][:kg]
			}
			x, y := x[g*m.rows*m.line:], y[(c.first*p.K+g*kg)*m.pixels:]
			if m.pixels == 1 {
				gemm.GemmFinish(false, true, c.images, kg, m.rows, 1, x, m.image(), filters, m.rows, 0, y, p.K, gemm.Finish[float32]{Bias: b}, rest)
				continue
			}
			r := rows{in: c.rows, out: kg, weights: filters[c.row:], row: m.rows, col: 1, bias: b}
			r.place, r.known, r.adds, r.goesOn = (g*m.rows+c.row)*kg, c.first > 0, c.row > 0, c.row+c.rows < m.rows
			r.x, r.between, r.line, r.xIsSide = x, m.between, m.line, !m.inPlace
			r.y, r.outStep, r.outLine = y, p.K*m.pixels, m.pixels
			if m.inPlace {
				r.safely = m.reaching(g, c.rows, m.between)
			}
			m.run(&r, c.images, room, rest)
		}
	})
}

// GradInput overwrites dx with the gradient of the input.
func GradInput(p *geometry.Shape, dy, w, dx, scratch []float32) {
	if takesPixels(p, geometry.ToInput) {
		b := newByPixel(p, geometry.ToInput)
		b.gradInput(dy, w, dx, scratch)
		return
	}
	m := newPatches(p, geometry.ToInput)
	m.gradInput(dy, w, dx, scratch)
}

// gradInput is GradInput from matrices with a row for every tap.
func (m *patches) gradInput(dy, w, dx, scratch []float32) {
	p, kg := m.p, m.p.K/m.p.GroupCount()
	room, rest := scratch[:m.copies()], scratch[m.copies():]
	var spare []float32
	if m.pixels > 1 {
		spare, rest = rest[:kg*m.pixels+kernel.Block], rest[kg*m.pixels+kernel.Block:]
	}
	size := p.C * p.H * p.W
	if !m.inPlace {
		m.taps.SetTables(room[m.matrixElems():])
	}
	covered := m.covers()
	m.eachPiece(func(c piece) {
		to := room
		if m.inPlace {
			to = dx[c.first*size:]
		}
		for g := range p.GroupCount() {
			filters := w[g*kg*m.rows:][:kg*m.rows]
			from, to := dy[(c.first*p.K+g*kg)*m.pixels:], to[g*m.rows*m.line:]
			if m.pixels == 1 {
				gemm.Gemm(false, false, c.images, m.rows, kg, 1, from, p.K, filters, m.rows, 0, to, m.image(), rest)
				continue
			}
			r := rows{in: kg, out: c.rows, weights: filters[c.row:], row: 1, col: m.rows}
			r.place, r.known, r.again = (g*m.rows+c.row)*kg, c.first > 0, c.row > 0
			r.x, r.between, r.line = from, p.K*m.pixels, m.pixels
			r.y, r.outStep, r.outLine, r.yIsSide = to, m.between, m.line, !m.inPlace
			r.safely = max(0, m.reaching(g, kg, p.K*m.pixels)-(p.N-c.first-c.images))
			m.run(&r, c.images, spare, rest)
		}
		if !m.inPlace {
			for i := range c.images {
				to := dx[m.at(c, i):][:c.channels*p.H*p.W]
				if !covered {
					clear(to)
				}
				m.move(c.channels, to, room, i)
			}
		}
	})
}

// deepPixels is how many pixels a product of weight gradients sums over, if images of few pixels are put side by side for it.
const deepPixels = 256

// leastAlone is from how many pixels on images are products of their own. Where dy has as many rows as x, or more, to copy these soon takes longer than to
// read and write the sums once more; else Gemm packs dy, and x may be copied anyway.
func (m *patches) leastAlone(kg int) int {
	const few = 24
	switch {
	case kg >= m.rows:
		return few
	case m.inPlace:
		return deepPixels / 2
	}
	return deepPixels
}

// deep is several images side by side where one has few pixels; images is 1 where there are enough, or one, of which the
// batch is one product as it lies.
func (m *patches) deep(kg int) joined {
	if 1 < m.pixels && m.pixels < m.leastAlone(kg) {
		return m.side(min(m.batch, kernel.CeilDiv(deepPixels, m.pixels)))
	}
	return m.alone()
}

// tallElems is the room for rows of inputs, which need none where they are copied anyway.
func (m *patches) tallElems(d *joined) int {
	if !m.inPlace {
		return 0
	}
	return d.elems(m.rows)
}

// GradWeight writes or adds the gradient of the weights to dw.
func GradWeight(p *geometry.Shape, x, dy, dw, scratch []float32, accumulate bool) {
	switch {
	case takesPixels(p, geometry.ToWeight):
		b := newByPixel(p, geometry.ToWeight)
		b.gradWeight(x, dy, dw, scratch, accumulate)
	case takesDots(p):
		m := patchesOf(p, geometry.ToWeight, p.C)
		d := newDotted(&m, p.K/p.GroupCount())
		d.gradWeight(x, dy, dw, scratch, accumulate)
	default:
		m := newPatches(p, geometry.ToWeight)
		m.gradWeight(x, dy, dw, scratch, accumulate)
	}
}

// gradWeight is GradWeight by matrix products.
func (m *patches) gradWeight(x, dy, dw, scratch []float32, accumulate bool) {
	p, kg := m.p, m.p.K/m.p.GroupCount()
	room, rest := scratch[:m.copies()], scratch[m.copies():]
	d := m.deep(kg)
	wide, rest := rest[:d.elems(kg)], rest[d.elems(kg):]
	tall, rest := rest[:m.tallElems(&d)], rest[m.tallElems(&d):]
	m.each(x, room, func(c piece, x []float32) {
		for g := range p.GroupCount() {
			x, dy, dw := x[g*m.rows*m.line:], dy[(c.first*p.K+g*kg)*m.pixels:], dw[g*kg*m.rows+c.row:]
			var beta float32
			if accumulate || c.first > 0 {
				beta = 1
			}
			if m.pixels == 1 {
				gemm.Gemm(true, false, kg, m.rows, c.images, 1, dy, p.K, x, m.image(), beta, dw, m.rows, rest)
				continue
			}
			for i := 0; i < c.images; i += d.images {
				count := min(d.images, c.images-i)
				a, lineA := dy[i*p.K*m.pixels:], m.pixels
				if count > 1 {
					if c.row == 0 {
						d.gather(kg, count, p.K*m.pixels, a, wide)
					}
					a, lineA = wide, d.line
				}
				b, lineB := x[i*m.between:], m.line
				if count > 1 && m.inPlace {
					d.gather(m.rows, count, m.between, b, tall)
					b, lineB = tall, d.line
				}
				gemm.Gemm(false, true, kg, c.rows, count*m.pixels, 1, a, lineA, b, lineB, beta, dw, m.rows, rest)
				beta = 1
			}
		}
	})
}
