package product

import (
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/cost"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/geometry"
	"github.com/trainctl/trainctl/core/engine/kernel/gemm"
)

// Gradients of patches, from matrices with a row for every output pixel and a column for every tap. The taps of a row of a filter lie beside each
// other in the image as in such a matrix, so copies move whole runs, where matrices with a row for every tap need each element to be turned. The
// other two matrices of both products lie as Gemm reads them.

// byPixel is patches as such matrices.
type byPixel struct {
	p             *geometry.Shape
	pixels        int // of an image
	images, bands int // whose pixels are worked on at once: several images, or as many rows of outputs of one
	channels      int // whose taps are worked on at once
	line          int // elements from a row of the matrix to the next
	side          joined
}

// What is worked on at once. Input gradients take fewer pixels than those for which Gemm packs the weights again.
const (
	deepElems   = 1 << 16 // of a matrix for weight gradients, which stays in L2
	widePixels  = 112     // for input gradients, at most
	wideImages  = 64      // pixels for which images are joined
	wideElems   = 1 << 16
	mostOfPatch = 1 << 10 // taps of a channel
)

// fitsPixels reports whether a gradient of p may be computed this way. Input gradients of patches two wide are put together by vectors, which takes less
// than copies of two elements each.
func fitsPixels(p *geometry.Shape, d geometry.Direction) bool {
	if d == geometry.ToInput && p.S == 2 && p.StrideW == 2 {
		return false
	}
	return d != geometry.ToOutput && isProduct(p) && p.PadH+p.PadW == 0 && p.GroupCount() == 1 &&
		p.OutH()*p.OutW() > 1 && p.S >= geometry.LeastRun && p.R*p.S <= mostOfPatch
}

// newByPixel is for a direction of p that fits.
func newByPixel(p *geometry.Shape, d geometry.Direction) byPixel {
	b := byPixel{p: p, pixels: p.OutH() * p.OutW(), images: 1, bands: p.OutH()}
	elems := deepElems
	if d == geometry.ToWeight {
		b.setDeep()
	} else {
		b.setWide()
		elems = wideElems
	}
	most := max(1, elems/(b.rows()*p.R*p.S))
	b.channels = kernel.CeilDiv(p.C, kernel.CeilDiv(p.C, most))
	b.line = kernel.CeilDiv(b.columns(b.channels), kernel.Block) * kernel.Block
	if b.line%sets == 0 {
		b.line += kernel.Block
	}
	return b
}

// setDeep sets the pixels of weight gradients. Images are joined where copies of dy take less than reading and writing sums again.
func (b *byPixel) setDeep() {
	const copied, summed, called = 3, 2, 100
	p, lanes := b.p, kernel.Lanes()
	if b.pixels > deepPixels {
		b.bands = evenParts(p.OutH(), b.pixels, deepPixels)
		return
	}
	images := min(p.N, deepPixels/b.pixels)
	if sums := p.K * kernel.CeilDiv(p.PatchSize(), lanes); copied*p.K*kernel.CeilDiv(b.pixels, lanes) < summed*sums+called {
		b.join(images)
	}
}

// setWide sets the pixels of input gradients.
func (b *byPixel) setWide() {
	if b.pixels > widePixels {
		b.bands = evenParts(b.p.OutH(), b.pixels, widePixels)
		return
	}
	if b.pixels < wideImages/2 {
		b.join(min(b.p.N, kernel.CeilDiv(wideImages, b.pixels)))
	}
}

// join makes so many images one product.
func (b *byPixel) join(images int) {
	if b.images = images; images > 1 {
		m := patches{pixels: b.pixels}
		b.side = m.side(images)
	}
}

// evenParts divides rows of so many pixels into parts of about most, and returns how many rows one has.
func evenParts(rows, pixels, most int) int {
	return kernel.CeilDiv(rows, min(rows, kernel.CeilDiv(pixels, most)))
}

// rows is how many rows the matrix has.
func (b *byPixel) rows() int { return b.images * b.bands * b.p.OutW() }

// columns is how many columns so many channels have.
func (b *byPixel) columns(channels int) int { return channels * b.p.R * b.p.S }

// sideElems is the room for dy of images side by side.
func (b *byPixel) sideElems() int {
	if b.images == 1 {
		return 0
	}
	return b.side.elems(b.p.K)
}

// scratch is the room for the matrix, for dy of images side by side, and for products.
func (b *byPixel) scratch(d geometry.Direction) int {
	m, n, k := b.p.K, b.columns(b.channels), b.rows()
	if d == geometry.ToInput {
		m, k = k, m
	}
	return b.rows()*b.line + b.sideElems() + gemm.GemmScratch(m, n, k)
}

// pixelBlock is images and rows of outputs that are worked on at once, and dy of them: a row for each filter.
type pixelBlock struct {
	image, images, row, rows int
	dy                       []float32
	line                     int
}

// eachBlock calls f for the blocks of all pixels. wide is room for dy of images side by side.
func (b *byPixel) eachBlock(dy, wide []float32, f func(c *pixelBlock)) {
	p := b.p
	for n := 0; n < p.N; n += b.images {
		for row := 0; row < p.OutH(); row += b.bands {
			c := pixelBlock{image: n, images: min(b.images, p.N-n), row: row, rows: min(b.bands, p.OutH()-row)}
			if c.dy, c.line = dy[n*p.K*b.pixels+row*p.OutW():], b.pixels; c.images > 1 {
				b.side.gather(p.K, c.images, p.K*b.pixels, c.dy, wide)
				c.dy, c.line = wide, b.side.line
			}
			f(&c)
		}
	}
}

// pixelsOf is how many pixels a block has.
func (b *byPixel) pixelsOf(c *pixelBlock) int { return c.images * c.rows * b.p.OutW() }

// far reports whether images come from far away.
func (b *byPixel) far() bool { return b.p.Images()*b.p.C*b.p.H*b.p.W > cost.SharedElems }

// eachCopy calls f for copies of runs of S elements from channels of images to the matrix. Images that come from far away are read plane by plane, as
// they lie; of others, the rows of the matrix that a row of outputs has stay in L1 until all channels have filled them.
func (b *byPixel) eachCopy(c *pixelBlock, channel, channels int, x, matrix []float32, f func(c geometry.RunCopy)) {
	p := b.p
	for i := range c.images {
		from, to := ((c.image+i)*p.C+channel)*p.H*p.W+c.row*p.StrideH*p.W, i*b.pixels*b.line
		runs := geometry.RunCopy{
			Images: c.rows, Bands: channels, Rows: p.R, Runs: p.OutW(), Src: &x[from], Dst: &matrix[to],
			SrcSteps: geometry.RunSteps{Image: p.StrideH * p.W, Band: p.H * p.W, Row: p.W, Run: p.StrideW},
			DstSteps: geometry.RunSteps{Image: p.OutW() * b.line, Band: p.R * p.S, Row: p.S, Run: b.line},
		}
		if b.far() {
			runs.SwapOuter()
		}
		if p.R > p.OutW() {
			runs.SwapInner()
		}
		f(runs)
	}
}

// gradWeight writes or adds the gradient of the weights to dw.
func (b *byPixel) gradWeight(x, dy, dw, scratch []float32, accumulate bool) {
	p, n := b.p, b.rows()*b.line
	matrix, wide, rest := scratch[:n], scratch[n:][:b.sideElems()], scratch[n+b.sideElems():]
	var beta float32
	if accumulate {
		beta = 1
	}
	b.eachBlock(dy, wide, func(c *pixelBlock) {
		for ch := 0; ch < p.C; ch += b.channels {
			channels := min(b.channels, p.C-ch)
			b.eachCopy(c, ch, channels, x, matrix, func(c geometry.RunCopy) { c.Copy(p.S) })
			gemm.Gemm(false, false, p.K, b.columns(channels), b.pixelsOf(c), 1, c.dy, c.line, matrix, b.line, beta, dw[b.columns(ch):], p.PatchSize(), rest)
		}
		beta = 1
	})
}

// gradInput overwrites dx with the gradient of the input.
func (b *byPixel) gradInput(dy, w, dx, scratch []float32) {
	p, n := b.p, b.rows()*b.line
	matrix, wide, rest := scratch[:n], scratch[n:][:b.sideElems()], scratch[n+b.sideElems():]
	plane := p.H * p.W
	covered := coversAll(p)
	b.eachBlock(dy, wide, func(c *pixelBlock) {
		if !covered && c.row == 0 {
			clear(dx[c.image*p.C*plane:][:c.images*p.C*plane])
		}
		for ch := 0; ch < p.C; ch += b.channels {
			channels := min(b.channels, p.C-ch)
			gemm.Gemm(true, false, b.pixelsOf(c), b.columns(channels), p.K, 1, c.dy, c.line, w[b.columns(ch):], p.PatchSize(), 0, matrix, b.line, rest)
			b.eachCopy(c, ch, channels, dx, matrix, func(c geometry.RunCopy) {
				c = c.Reversed()
				c.Copy(p.S)
			})
		}
	})
}

// byPixels are the gradients that are computed this way, and whether they are.
var byPixels geometry.Memo[bool]

// takesPixels reports whether a gradient is computed this way: where that takes less time, for any number of images.
func takesPixels(p *geometry.Shape, d geometry.Direction) bool {
	if !fitsPixels(p, d) {
		return false
	}
	return byPixels.Of(p, d, func() bool {
		many := *p
		many.N, many.Batch = manyImages, 0
		b := newByPixel(&many, d)
		rows, taps := b.terms(d), termsByTap(&many, d)
		return Rates.Cycles(&rows) < Rates.Cycles(&taps)
	})
}

// terms counts what a gradient does.
func (b *byPixel) terms(d geometry.Direction) (t cost.Terms) {
	p, lanes := b.p, kernel.Lanes()
	blocks := float64(p.N) / float64(b.images) * float64(kernel.CeilDiv(p.OutH(), b.bands))
	parts := float64(p.C) / float64(b.channels)
	vectors := kernel.CeilDiv(b.columns(b.channels), lanes)
	t[pixelRuns] = float64(p.N * p.C * b.pixels * p.R)
	t[pixelVectors] = t[pixelRuns] * float64(geometry.Moves(p.S)-1)
	t[pixelRows] = t[pixelRuns] / float64(max(p.R, p.OutW()))
	if b.far() {
		t[pixelFar] = float64(p.N*p.C*p.OutH()*p.R*p.W) / kernel.Block
	}
	in, out := b.rows(), p.K
	if d == geometry.ToInput {
		in, out = out, in
	}
	t.Add(cost.Product(vectors, in, out).Times(blocks * parts))
	t[cost.Calls], t[cost.Stores] = 0, 0
	switch tiles := kernel.CeilDiv(out, gemm.TileOf(lanes).Rows); tiles { // of which each reads the matrix from L2
	case 1:
		t[cost.Steps] *= 1.6
	case 2, 3:
		t[cost.Steps] *= 1.25
	default:
		t[cost.Steps] *= 0.9
	}
	t[pixelSums] = blocks * parts * float64(vectors*out*kernel.CeilDiv(in, gemm.BlockK))
	t[pixelStrips] = blocks * parts * float64(kernel.CeilDiv(vectors, 2))
	t[pixelProducts] = blocks * parts
	if b.images > 1 {
		m := patches{pixels: b.pixels}
		t[deepVectors] = float64(p.N*p.K*kernel.CeilDiv(b.pixels, lanes)) * m.shareOfCopy()
	}
	return t
}
