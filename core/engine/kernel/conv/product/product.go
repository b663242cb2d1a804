package product

import (
	"unsafe"

	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/cost"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/geometry"
	"github.com/trainctl/trainctl/core/engine/kernel/elementwise"
	"github.com/trainctl/trainctl/core/engine/kernel/gemm"
)

// Convolutions that are matrix products as they stand: no element of the input meets
// two outputs. That is so for filters of 1×1, for patches (the stride is the
// filter's size, or more) and for filters as large as the image. Each image is then a
// matrix with a row for every element of a filter and a column for every output pixel.
// With 1×1 filters and stride 1, and with one output pixel, it lies in x already; else
// it is copied, beside those of other images. With one pixel the whole batch is one product; else the micro-kernel
// of direct convolution goes over the pixels of all images, without a frame.

// Takes reports whether a convolution is such a product.
func Takes(p *geometry.Shape) bool {
	return p.PadH == 0 && p.PadW == 0 && (p.R == 1 || p.DilationH() == 1) && (p.S == 1 || p.DilationW() == 1) &&
		(p.StrideH >= p.R || p.OutH() == 1) && (p.StrideW >= p.S || p.OutW() == 1)
}

// patchesElems bounds the copies of images that are worked on at once, so that they stay in L2.
const patchesElems = 1 << 16

// patches is x as matrices.
type patches struct {
	p             *geometry.Shape
	rows          int // of one group
	pixels        int
	inPlace       bool
	batch         int // images that are copied at once; all of them if in place
	line, between int // elements between the rows of a matrix, and between images
}

func newPatches(p *geometry.Shape, d geometry.Direction) patches {
	m := patches{p: p, rows: p.PatchSize(), pixels: p.OutH() * p.OutW(), batch: p.N}
	m.inPlace = p.R == 1 && p.S == 1 && p.StrideH == 1 && p.StrideW == 1 || p.R == p.H && p.S == p.W
	if !m.inPlace {
		m.batch = min(p.N, max(1, patchesElems/m.image()))
		if d == geometry.ToWeight && m.pixels > 1 {
			m.batch = min(m.batch, kernel.CeilDiv(deepPixels, m.pixels))
		}
	}
	m.line, m.between = m.pixels, m.image()
	if !m.inPlace && m.pixels > 1 {
		m.line, m.between = kernel.CeilDiv(m.batch*m.pixels, kernel.Block)*kernel.Block+kernel.Block, m.pixels
	}
	return m
}

// image is the elements of an image's matrices.
func (m *patches) image() int { return m.rows * m.p.GroupCount() * m.pixels }

// matrixElems is the elements of the matrices of a batch that is copied.
func (m *patches) matrixElems() int {
	if m.pixels == 1 {
		return m.batch * m.image()
	}
	return m.rows * m.p.GroupCount() * m.line
}

// copies is the room for the copies of a batch, or, in place, for the last image where
// vectors read beyond its end.
func (m *patches) copies() int {
	if !m.inPlace {
		return m.matrixElems() + 2*m.foursElems() + kernel.Block
	}
	if m.pixels%kernel.Lanes() != 0 && m.pixels > 1 {
		return m.image() + kernel.Block
	}
	return 0
}

// each calls f for every batch of images, with the first of them and their matrices as copied from x.
func (m *patches) each(x, room []float32, f func(first, images int, x []float32)) {
	p := m.p
	size := p.C * p.H * p.W
	for n := 0; n < p.N; n += m.batch {
		images := min(m.batch, p.N-n)
		if m.inPlace {
			f(n, images, x[n*size:])
			continue
		}
		for i := range images {
			m.move(x[(n+i)*size:][:size], room, i, false)
		}
		f(n, images, room)
	}
}

// tiles is a product of weights with many images of pixels columns: out rows from in rows.
type tiles struct {
	gemm.TileShape
	in, out          int
	pixels           int
	between, outStep int       // elements from an image to the next
	line, outLine    int       // elements from a row to the next
	block            int       // vectors of pixels that are worked on at once
	packed           []float32 // panels of what they see, or nil: [block][in][lanes]
	offsets          []int32   // byte offsets of its rows
	weights          []float32
	bias             []float32
}

// blockElems bounds the pixels that are copied at once, so that they stay near: in L1, or soon in L2.
const blockElems = 1 << 13

// packsPixels reports whether a product of out rows copies the in rows that it reads: many, so that they
// are read from side to side, and where planes are pages apart, so that every tile writes next to the one before it.
func packsPixels(in, out, pixels int) bool {
	const page = 4096 / 4
	wide := kernel.Lanes() == kernel.Block
	return pixels >= page && (out >= 32 || wide && in >= 32) || !wide && min(in, out) >= 64
}

// tileBlock is how many vectors of pixels are worked on at once.
func tileBlock(in, out, pixels int) int {
	if !packsPixels(in, out, pixels) {
		return 2
	}
	return max(2, blockElems/panelElems(in)&^1)
}

// panelElems is the distance of the panels of in rows: an odd number of cache lines, so that
// what lies side by side in a row goes to different sets.
func panelElems(in int) int {
	return (kernel.CeilDiv(in*kernel.Lanes(), kernel.Block) | 1) * kernel.Block
}

// tilesScratch is the room for the offsets, a block of pixels and the packed weights, behind which packing writes
// up to a square of vectors.
func tilesScratch(in, out, pixels int) int {
	n := min(in, gemm.BlockK) + in*out + kernel.Block*kernel.Block
	if packsPixels(in, out, pixels) {
		n += tileBlock(in, out, pixels) * panelElems(in)
	}
	return n
}

// tileLanes is how many lanes the vectors of pixels have.
func tileLanes(in, out, pixels int) int {
	if packsPixels(in, out, pixels) {
		return kernel.Lanes()
	}
	const pair = 2 // of vectors, of the same image or not
	return cost.TileLanes(pair*kernel.CeilDiv(pixels, kernel.Lanes()), pair*kernel.CeilDiv(pixels, narrow), in, out)
}

// newTiles packs the weights of out rows: element (o, i) is at o·row + i·col. Rows of the input are line apart.
func newTiles(in, out, pixels, line int, w []float32, row, col int, room []float32) tiles {
	t := tiles{TileShape: gemm.TileOf(tileLanes(in, out, pixels)), in: in, out: out, pixels: pixels, line: line, block: tileBlock(in, out, pixels)}
	step := line
	t.offsets, room = unsafe.Slice((*int32)(unsafe.Pointer(&room[0])), min(in, gemm.BlockK)), room[min(in, gemm.BlockK):]
	if packsPixels(in, out, pixels) {
		n := t.block * panelElems(in)
		t.packed, room, step = room[:n], room[n:], t.Lanes
	}
	for i := range t.offsets {
		t.offsets[i] = int32(4 * i * step)
	}
	t.weights = room
	height := gemm.EvenRows(out, t.Rows)
	for l := 0; l < in; l += gemm.BlockK {
		k := min(gemm.BlockK, in-l)
		gemm.PackPanels(t.TileShape, w[l*col:], row, col, out, k, height, t.weights[l*out:])
	}
	return t
}

// place is a vector of pixels: its image and its first pixel.
type place struct{ image, pixel int }

// next is the vector behind p.
func (c *tiles) next(p place) place { return c.skip(p, 1) }

// run computes images from x to y.
func (c *tiles) run(images int, x, y []float32) {
	var p place
	for rest := kernel.CeilDiv(c.pixels, c.Lanes) * images; rest > 0; rest -= c.block {
		p = c.runBlock(p, min(c.block, rest), x, y)
	}
}

// runBlock computes count vectors of pixels from first on, and returns the place behind them.
func (c *tiles) runBlock(first place, count int, x, y []float32) (p place) {
	pixels := first.pixel + count*c.Lanes // where the next block begins
	images := pixels / c.pixels
	pixels -= images*c.pixels + first.pixel
	if c.packed != nil {
		c.pack(first, count, images*c.between+pixels, x)
	}
	step := c.out // rows of y that a pair of vectors takes before the next one
	if c.packed != nil {
		step = gemm.EvenRows(c.out, c.Rows)
	}
	for l := 0; l < c.in; l += gemm.BlockK {
		t := gemm.Tile{K: min(gemm.BlockK, c.in-l), Off: &c.offsets[0], Ldc: 4 * c.outLine, Ahead: 4 * (images*c.outStep + pixels), BNext: 8 * panelElems(c.in), CNext: 8 * c.Lanes}
		if l > 0 {
			t.Add = 1
		}
		for i := 0; i < c.out; i += step {
			p = first
			for v := 0; v < count; {
				var to0, to1 int
				t.B0, to0, t.N0 = c.column(p, v, l, x)
				t.B1, to1, t.N1 = t.B0, to0, c.Mask(0)
				t.Count = c.beside(p, count-v)
				if t.Count > 0 {
					t.B1, to1, t.N1 = c.column(c.next(p), v+1, l, x)
					v += 2 * t.Count
					p = c.skip(p, 2*t.Count)
				} else {
					if p = c.next(p); v+1 < count {
						t.B1, to1, t.N1 = c.column(p, v+1, l, x)
						p = c.next(p)
					}
					v += 2
				}
				c.tiles(&t, l, i, min(i+step, c.out), y[to0:], y[to1:])
			}
		}
	}
	return p
}

// beside is how many pairs of whole vectors of one image, of count vectors from p on, the micro-kernel takes in a call:
// none where a call goes down all rows of y.
func (c *tiles) beside(p place, count int) int {
	if c.packed == nil {
		return 0
	}
	return min(count, (c.pixels-p.pixel)/c.Lanes) / 2
}

// skip is the place that many vectors behind p, in its image or at the beginning of the next.
func (c *tiles) skip(p place, vectors int) place {
	if p.pixel += vectors * c.Lanes; p.pixel >= c.pixels {
		return place{p.image + 1, 0}
	}
	return p
}

// tiles computes the rows [i, end) of a pair of vectors.
func (c *tiles) tiles(t *gemm.Tile, l, i, end int, y0, y1 []float32) {
	height := gemm.EvenRows(c.out, c.Rows)
	for ; i < end; i += height {
		t.A, t.C0, t.C1 = &c.weights[l*c.out+i*t.K], &y0[i*c.outLine], &y1[i*c.outLine]
		if t.Bias = nil; c.bias != nil && l == 0 {
			t.Bias = &c.bias[i]
		}
		c.Run(min(height, end-i), t)
	}
}

// pack copies what a block of vectors sees to panels, and prefetches what lies ahead elements behind it.
func (c *tiles) pack(p place, count, ahead int, x []float32) {
	panel := panelElems(c.in)
	for v := 0; v < count; p = (place{p.image + 1, 0}) {
		n := min(count-v, kernel.CeilDiv(c.pixels-p.pixel, c.Lanes))
		gemm.PackVectors(c.in, n, &x[p.image*c.between+p.pixel], c.line, ahead, &c.packed[v*panel], panel)
		v += n
	}
}

// column is where vector v of a block lies: in x or its panel, from input l on, and in y; and which of its pixels count.
func (c *tiles) column(p place, v, l int, x []float32) (b *float32, to int, lanes kernel.Mask) {
	to, lanes = p.image*c.outStep+p.pixel, c.Mask(min(c.Lanes, c.pixels-p.pixel))
	if c.packed != nil {
		return &c.packed[v*panelElems(c.in)+l*c.Lanes], to, lanes
	}
	return &x[p.image*c.between+p.pixel+l*c.line], to, lanes
}

// runSafely is run for the last images of x, behind which vectors must not read: the
// very last goes through a copy where they would.
func (c *tiles) runSafely(images int, x, y, room []float32) {
	if c.pixels%c.Lanes == 0 {
		c.run(images, x, y)
		return
	}
	if images > 1 {
		c.run(images-1, x, y)
	}
	last := (images - 1) * c.between
	copy(room, x[last:][:c.in*c.pixels])
	c.run(1, room, y[(images-1)*c.outStep:])
}

// Scratch is the number of scratch elements that a direction needs.
func Scratch(p *geometry.Shape, d geometry.Direction) int {
	m := newPatches(p, d)
	kg := p.K / p.GroupCount()
	n := m.copies()
	if m.pixels == 1 {
		return n + max(gemm.GemmScratch(m.batch, kg, m.rows), gemm.GemmScratch(m.batch, m.rows, kg), gemm.GemmScratch(kg, m.rows, m.batch))
	}
	switch d {
	case geometry.ToOutput:
		return n + tilesScratch(m.rows, kg, m.pixels)
	case geometry.ToInput:
		return n + tilesScratch(kg, m.rows, m.pixels) + kg*m.pixels + kernel.Block
	}
	d16 := m.deep()
	n += d16.elems(kg) + m.tallElems(&d16) + m.transposedElems(kg)
	if m.packsInputs(kg) {
		return n + gemm.GemmScratch(m.rows, kg, d16.images*m.pixels)
	}
	return n + gemm.GemmScratch(kg, m.rows, d16.images*m.pixels)
}

// Forward computes y = conv(x, w) + bias; bias may be nil.
func Forward(p *geometry.Shape, x, w, bias, y, scratch []float32) {
	m, kg := newPatches(p, geometry.ToOutput), p.K/p.GroupCount()
	room, rest := scratch[:m.copies()], scratch[m.copies():]
	m.each(x, room, func(n, images int, x []float32) {
		for g := range p.GroupCount() {
			filters, b := w[g*kg*m.rows:][:kg*m.rows], bias
			if b != nil {
				b = b[g*kg:][:kg]
			}
			x, y := x[g*m.rows*m.line:], y[(n*p.K+g*kg)*m.pixels:]
			if m.pixels == 1 {
				gemm.GemmFinish(false, true, images, kg, m.rows, 1, x, m.image(), filters, m.rows, 0, y, p.K, gemm.Finish[float32]{Bias: b}, rest)
				continue
			}
			t := newTiles(m.rows, kg, m.pixels, m.line, filters, m.rows, 1, rest)
			t.between, t.outStep, t.outLine, t.bias = m.between, p.K*m.pixels, m.pixels, b
			if m.inPlace && g == p.GroupCount()-1 {
				t.runSafely(images, x, y, room)
			} else {
				t.run(images, x, y)
			}
		}
	})
}

// GradInput overwrites dx with the gradient of the input.
func GradInput(p *geometry.Shape, dy, w, dx, scratch []float32) {
	m, kg := newPatches(p, geometry.ToInput), p.K/p.GroupCount()
	room, rest := scratch[:m.copies()], scratch[m.copies():]
	var spare []float32
	if m.pixels > 1 {
		spare, rest = rest[:kg*m.pixels+kernel.Block], rest[kg*m.pixels+kernel.Block:]
	}
	size := p.C * p.H * p.W
	covered := p.StrideH == p.R && p.StrideW == p.S && p.OutH()*p.R == p.H && p.OutW()*p.S == p.W
	for n := 0; n < p.N; n += m.batch {
		images, to := min(m.batch, p.N-n), room
		if m.inPlace {
			to = dx[n*size:]
		}
		for g := range p.GroupCount() {
			filters := w[g*kg*m.rows:][:kg*m.rows]
			from, to := dy[(n*p.K+g*kg)*m.pixels:], to[g*m.rows*m.line:]
			if m.pixels == 1 {
				gemm.Gemm(false, false, images, m.rows, kg, 1, from, p.K, filters, m.rows, 0, to, m.image(), rest)
				continue
			}
			t := newTiles(kg, m.rows, m.pixels, m.pixels, filters, 1, m.rows, rest)
			t.between, t.outStep, t.outLine = p.K*m.pixels, m.between, m.line
			if n+images == p.N && g == p.GroupCount()-1 {
				t.runSafely(images, from, to, spare)
			} else {
				t.run(images, from, to)
			}
		}
		if !m.inPlace {
			for i := range images {
				to := dx[(n+i)*size:][:size]
				if !covered {
					clear(to)
				}
				m.move(to, room, i, true)
			}
		}
	}
}

// deepPixels is how many pixels a product of weight gradients sums over at least, if
// there are so many: fewer do not pay for reading and writing the sums.
const deepPixels = 256

// deep is the copies of several images side by side, which make such a product.
type deep struct{ images, pixels, line int }

// deep is for few pixels; images is 1 where there are enough, or one, of which the batch is one product as it lies.
func (m *patches) deep() deep {
	d := deep{images: 1, pixels: m.pixels}
	if m.pixels > 1 && (m.pixels < deepPixels/2 || !m.inPlace) {
		d.images = min(m.batch, kernel.CeilDiv(deepPixels, m.pixels))
		d.line = kernel.CeilDiv(d.images*m.pixels, kernel.Block)*kernel.Block + kernel.Block
	}
	return d
}

func (d *deep) elems(rows int) int { return rows * d.line }

// tallElems is the room for rows of inputs, which need none where they are copied anyway.
func (m *patches) tallElems(d *deep) int {
	if !m.inPlace {
		return 0
	}
	return d.elems(m.rows)
}

// fill copies rows of some images, which lie between apart.
func (d *deep) fill(rows, images, between int, src, dst []float32) {
	lanes := kernel.Lanes()
	for i := range images {
		for col := 0; col < d.pixels; col += lanes {
			gemm.PackAlong(rows, &src[i*between+col], 4*d.pixels, kernel.FirstLanes(min(lanes, d.pixels-col)), &dst[i*d.pixels+col], 4*d.line)
		}
	}
}

// packsInputs reports whether a product of weight gradients packs x, which has fewer rows than dy, and gives the
// transpose of dw.
func (m *patches) packsInputs(kg int) bool { return m.pixels > 1 && m.rows < kg }

// transposedElems is the room for the transposes of dw of all groups, and for one that is turned back. Turning
// it writes up to a square of vectors more.
func (m *patches) transposedElems(kg int) int {
	if !m.packsInputs(kg) {
		return 0
	}
	return (m.p.GroupCount()+1)*m.rows*kg + kernel.Block*kernel.Block
}

// GradWeight writes or adds the gradient of the weights to dw.
func GradWeight(p *geometry.Shape, x, dy, dw, scratch []float32, accumulate bool) {
	m, kg := newPatches(p, geometry.ToWeight), p.K/p.GroupCount()
	if n := m.transposedElems(kg); n > 0 {
		sums, turned, size := scratch[:p.GroupCount()*m.rows*kg], scratch[p.GroupCount()*m.rows*kg:n], m.rows*kg
		m.gradWeight(x, dy, sums, scratch[n:], false)
		for g := range p.GroupCount() {
			gemm.Transpose(m.rows, kg, sums[g*size:], turned)
			if to := dw[g*size:][:size]; accumulate {
				elementwise.AddTo(to, turned[:size])
			} else {
				copy(to, turned)
			}
		}
		return
	}
	m.gradWeight(x, dy, dw, scratch, accumulate)
}

// gradWeight writes or adds the gradient of the weights, or its transpose if inputs are packed.
func (m *patches) gradWeight(x, dy, dw, scratch []float32, accumulate bool) {
	p, kg := m.p, m.p.K/m.p.GroupCount()
	room, rest := scratch[:m.copies()], scratch[m.copies():]
	d := m.deep()
	wide, rest := rest[:d.elems(kg)], rest[d.elems(kg):]
	tall, rest := rest[:m.tallElems(&d)], rest[m.tallElems(&d):]
	m.each(x, room, func(n, images int, x []float32) {
		for g := range p.GroupCount() {
			x, dy, dw := x[g*m.rows*m.line:], dy[(n*p.K+g*kg)*m.pixels:], dw[g*kg*m.rows:][:kg*m.rows]
			var beta float32
			if accumulate || n > 0 {
				beta = 1
			}
			if m.pixels == 1 {
				gemm.Gemm(true, false, kg, m.rows, images, 1, dy, p.K, x, m.image(), beta, dw, m.rows, rest)
				continue
			}
			for i := 0; i < images; i += d.images {
				count := min(d.images, images-i)
				a, lineA := dy[i*p.K*m.pixels:], m.pixels
				if count > 1 {
					d.fill(kg, count, p.K*m.pixels, a, wide)
					a, lineA = wide, d.line
				}
				b, lineB := x[i*m.between:], m.line
				if count > 1 && m.inPlace {
					d.fill(m.rows, count, m.between, b, tall)
					b, lineB = tall, d.line
				}
				if m.packsInputs(kg) {
					gemm.Gemm(false, true, m.rows, kg, count*m.pixels, 1, b, lineB, a, lineA, beta, dw, kg, rest)
				} else {
					gemm.Gemm(false, true, kg, m.rows, count*m.pixels, 1, a, lineA, b, lineB, beta, dw, m.rows, rest)
				}
				beta = 1
			}
		}
	})
}
