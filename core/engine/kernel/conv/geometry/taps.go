package geometry

import (
	"math"
	"unsafe"

	"github.com/trainctl/trainctl/core/engine/kernel"
)

// Taps copies what the taps of filters see of images to rows of a matrix, one row for each channel and tap and one column
// for each pixel, with zeros where a tap sees padding; or back. It is for any stride, padding and dilation. Lanes of vectors are picked from
// other vectors, by tables that are made once for all images.
type Taps struct {
	image, p Shape // p is what the tables are for: the image, or a row of pixels and of taps
	whole    bool  // p is the image
	back     bool
	single   bool // one tap, which sees no padding
	pixels   int  // of a block that is gathered
	count    int  // of blocks
	sources  int  // the vectors from which one is picked
	blocks   []tapBlock
	orders   []int32   // [blocks][taps][sources][lanes]
	planes   []float32 // see lastPlanes
}

// tapRows is a call of the kernels. All steps are bytes: of src and dst from a plane to the next, and from a row to the
// next, and from what a tap sees to what the next one does. It counts in planes. The layout is known to gen/conv/tap_rows.go.
type tapRows struct {
	planes, rows, blocks, taps int
	src, dst                   *float32
	srcPlane, srcRow           int
	dstPlane, dstRow           int
	tap                        int
	table                      *tapBlock
	orders                     *int32
	srcPlaneAt, dstPlaneAt     int // the kernel's own: addresses that may lie behind the memory
	last                       int // spreading: vectors of zeros behind the last row of a plane, as blocks are of others
}

// tapSources is from how many vectors a block is gathered at most.
const tapSources = 4

// tapBlock is what is copied at once of a row: where it begins in src and dst, in bytes, and which lanes of each vector of src are
// read, or, of the first, of dst are written.
type tapBlock struct {
	src, dst int
	lanes    [tapSources]kernel.Mask
}

// mostWhole is the elements of a plane up to which vectors may cross the ends of its rows.
const mostWhole = 1 << 10

// NewTaps is for images of p, and for one of both ways. No element may meet two taps on the way back.
func NewTaps(p *Shape, back bool) Taps {
	single := p.R == 1 && p.S == 1 && p.PadH == 0 && p.PadW == 0
	row := *p
	row.H, row.R, row.StrideH, row.PadH = 1, 1, 1, 0
	t := Taps{p: row, image: *p, back: back, single: single}
	t.fit()
	if single && back {
		return t
	}
	if p.OutW() < kernel.Lanes() && p.H*p.W <= mostWhole {
		if w := (Taps{p: *p, image: *p, back: back, whole: true, single: single}); w.fit() && w.cycles() < t.cycles() {
			t = w
		}
	}
	return t
}

// FitsTaps reports whether Taps takes images of p: vectors hold what a pixel sees of a row.
func (p *Shape) FitsTaps() bool {
	return p.DilationW()*(p.S-1) < tapSources*kernel.Lanes()
}

// area is the elements that the tables are for, and out the pixels.
func (t *Taps) area() int { return t.p.H * t.p.W }
func (t *Taps) out() int  { return t.p.OutH() * t.p.OutW() }
func (t *Taps) taps() int { return t.p.R * t.p.S }

// at is the element that a tap sees for a pixel, or one below 0 for padding.
func (t *Taps) at(pixel, tap int) int {
	p, ow := &t.p, t.p.OutW()
	row := pixel/ow*p.StrideH + tap/p.S*p.DilationH() - p.PadH
	col := pixel%ow*p.StrideW + tap%p.S*p.DilationW() - p.PadW
	if row < 0 || row >= p.H || col < 0 || col >= p.W {
		return -1
	}
	return row*p.W + col
}

// window is the elements from the first to the last that n pixels from first on may see.
func (t *Taps) window(first, n int) (start, end int) {
	p, ow := &t.p, t.p.OutW()
	last := first + n - 1
	left, right := first%ow, last%ow
	if first/ow != last/ow {
		left, right = 0, ow-1
	}
	inside := func(i, n int) int { return max(0, min(i, n-1)) }
	start = inside(first/ow*p.StrideH-p.PadH, p.H)*p.W + inside(left*p.StrideW-p.PadW, p.W)
	end = inside(last/ow*p.StrideH+p.DilationH()*(p.R-1)-p.PadH, p.H)*p.W + inside(right*p.StrideW+p.DilationW()*(p.S-1)-p.PadW, p.W) + 1
	return start, end
}

// seen is the pixels from the first to the last that taps may see n elements for, from first on.
func (t *Taps) seen(first, n int) (start, end int) {
	p, ow, last := &t.p, t.p.OutW(), first+n-1
	if t.single {
		start, end = kernel.CeilDiv(first, p.StrideW), min(ow, last/p.StrideW+1)
		if start < end {
			return start, end
		}
		return 0, 0
	}
	axis := func(low, high, pad, reach, stride, out int) (from, to int) {
		return max(0, kernel.CeilDiv(max(0, low+pad-reach), stride)), min(out, (high+pad)/stride+1)
	}
	top, bottom := axis(first/p.W, last/p.W, p.PadH, p.DilationH()*(p.R-1), p.StrideH, p.OutH())
	left, right := 0, ow
	if first/p.W == last/p.W {
		left, right = axis(first%p.W, last%p.W, p.PadW, p.DilationW()*(p.S-1), p.StrideW, ow)
	}
	if top >= bottom || left >= right {
		return 0, 0
	}
	return top*ow + left, (bottom-1)*ow + right
}

// eachBlock calls f for the blocks of an image: what is read and what is written, from an element or a pixel up to another.
func (t *Taps) eachBlock(f func(readFrom, readTo, from, to int)) {
	if t.back {
		for first := 0; first < t.area(); first += kernel.Lanes() {
			end := min(first+kernel.Lanes(), t.area())
			start, last := t.seen(first, end-first)
			f(start, last, first, end)
		}
		return
	}
	for first := 0; first < t.out(); first += t.pixels {
		end := min(first+t.pixels, t.out())
		start, last := t.window(first, end-first)
		f(start, last, first, end)
	}
}

// setSizes divides images into blocks of at most as many pixels, and reports whether the vectors hold what they read.
func (t *Taps) setSizes(most int) bool {
	lanes := kernel.Lanes()
	t.pixels = kernel.CeilDiv(t.out(), kernel.CeilDiv(t.out(), most))
	if t.single && most == lanes {
		t.pixels = lanes // what vectors write behind the last block belongs to the next row, whose blocks are written later
	}
	t.count, t.sources = 0, 1
	t.eachBlock(func(start, end, _, _ int) {
		t.count, t.sources = t.count+1, max(t.sources, kernel.CeilDiv(end-start, lanes))
	})
	if t.back {
		return t.sources == 1
	}
	return t.sources <= tapSources
}

// fit finds the largest blocks that the vectors hold, if there are any.
func (t *Taps) fit() bool {
	room := tapSources*kernel.Lanes() - t.p.DilationW()*(t.p.S-1)
	for most := min(kernel.Lanes(), t.out(), kernel.CeilDiv(room, t.p.StrideW)); most > 0; most-- {
		if t.setSizes(most) {
			t.single = t.single && (t.back || t.count == 1 || t.pixels == kernel.Lanes())
			return true
		}
		if t.back {
			break
		}
	}
	return false
}

// Picks is how many blocks an image of one channel is copied in, and from how many vectors their lanes are picked.
func (t *Taps) Picks() (blocks, picks int) {
	blocks, picks = t.count, t.count*t.taps()*t.sources
	if !t.whole {
		blocks, picks = blocks*t.image.R*t.image.OutH(), picks*t.image.R*t.image.OutH()
	}
	return blocks, picks
}

// cycles is about what they take.
func (t *Taps) cycles() int {
	block := 4
	if t.single {
		block = 2
	}
	blocks, picks := t.Picks()
	return block*blocks + picks
}

// Elems is the room for the tables.
func (t *Taps) Elems() int {
	const block = int(unsafe.Sizeof(tapBlock{}) / 4)
	return t.count*(block+t.taps()*t.sources*kernel.Lanes()) + t.lastElems()
}

// SetTables makes the tables, of Elems elements.
func (t *Taps) SetTables(room []float32) {
	const block = int(unsafe.Sizeof(tapBlock{}) / 4)
	lanes := kernel.Lanes()
	t.blocks = unsafe.Slice((*tapBlock)(unsafe.Pointer(&room[0])), t.count)
	room = room[t.count*block:]
	t.orders = unsafe.Slice((*int32)(unsafe.Pointer(&room[0])), t.count*t.taps()*t.sources*lanes)
	t.planes = room[len(t.orders):]
	for i := range t.orders {
		t.orders[i] = noLane(i % lanes)
	}
	n, size := 0, t.taps()*t.sources*lanes
	t.eachBlock(func(start, end, first, last int) {
		b, orders := tapBlock{src: 4 * start, dst: 4 * first}, t.orders[n*size:]
		for i := range t.sources {
			b.lanes[i] = kernel.FirstLanes(max(0, min(lanes, t.area()-start-i*lanes)))
		}
		if t.back {
			b.lanes[0] = kernel.FirstLanes(last - first)
			t.orderBack(orders, start, end, first, last)
		} else {
			t.order(orders, start, first, last)
		}
		t.blocks[n] = b
		n++
	})
	if t.single && !t.back && t.sources > 1 && kernel.Wide() {
		t.joinOrders()
	}
}

// order fills the orders of a block of pixels, from elements from start on.
func (t *Taps) order(orders []int32, start, first, end int) {
	lanes := kernel.Lanes()
	for tap := range t.taps() {
		for pixel := first; pixel < end; pixel++ {
			if at := t.at(pixel, tap); at >= 0 {
				orders[(tap*t.sources+(at-start)/lanes)*lanes+pixel-first] = lane((at - start) % lanes)
			}
		}
	}
}

// orderBack fills the orders of a block of elements, which pixels from start on see.
func (t *Taps) orderBack(orders []int32, start, end, first, last int) {
	for tap := range t.taps() {
		for pixel := start; pixel < end; pixel++ {
			if at := t.at(pixel, tap); at >= first && at < last {
				orders[tap*kernel.Lanes()+at-first] = lane(pixel - start)
			}
		}
	}
}

// lane is the entry of an order that picks a lane, and noLane the one at i that picks none.
func lane(n int) int32 {
	if kernel.Wide() {
		return int32(kernel.Block + n)
	}
	return int32(n) | math.MinInt32
}

func noLane(i int) int32 {
	if kernel.Wide() {
		return int32(i)
	}
	return 0
}

// nearElems is how many elements of an image are copied for one row of taps after the other, while they are in the L1 cache.
const nearElems = 1 << 12

// Gather copies an image to a matrix, whose rows lie line apart. It may write behind a row: a vector less one.
func (t *Taps) Gather(channels int, image, matrix []float32, line int) {
	p, size, taps := &t.image, t.image.H*t.image.W, t.image.R*t.image.S
	c := t.call(line)
	c.srcPlane, c.dstPlane = 4*size, 4*taps*line
	if t.whole {
		c.planes, c.rows, c.src, c.dst = channels, 1, &image[0], &matrix[0]
		t.gather(&c)
		return
	}
	c.srcRow, c.dstRow = 4*p.StrideH*p.W, 4*p.OutW()
	if p.PadH == 0 && channels < p.R { // the rows of taps of a channel as so many planes
		c.srcPlane, c.dstPlane = 4*p.DilationH()*p.W, 4*p.S*line
		for ch := range channels {
			c.planes, c.rows, c.src, c.dst = p.R, p.OutH(), &image[ch*size], &matrix[ch*taps*line]
			t.gather(&c)
		}
		return
	}
	near := max(1, nearElems/size)
	for first := 0; first < channels; first += near {
		count := min(near, channels-first)
		image, matrix := image[first*size:], matrix[first*taps*line:]
		for r := range p.R {
			from, end := p.seeingRows(r)
			to := matrix[r*p.S*line:]
			if from < end {
				c.planes, c.rows = count, end-from
				c.src, c.dst = &image[(from*p.StrideH+r*p.DilationH()-p.PadH)*p.W], &to[from*p.OutW()]
				t.gather(&c)
			}
			t.clearRows(count, to, line, 0, from)
			t.clearRows(count, to, line, end, p.OutH())
		}
	}
}

// seeingRows are the rows of pixels whose row r of taps sees the image.
func (p *Shape) seeingRows(r int) (from, end int) {
	r = p.PadH - r*p.DilationH()
	from = min(kernel.CeilDiv(max(0, r), p.StrideH), p.OutH())
	return from, max(from, min(p.OutH(), kernel.CeilDiv(max(0, p.H+r), p.StrideH)))
}

// clearRows clears what a row of taps sees of padding: rows of pixels.
func (t *Taps) clearRows(channels int, matrix []float32, line, from, end int) {
	p := &t.image
	if from == end {
		return
	}
	for i := range channels * p.S {
		clear(matrix[(i/p.S*p.R*p.S+i%p.S)*line:][from*p.OutW() : end*p.OutW()])
	}
}

// Scatter is the way back. It overwrites all of the image, with zeros where no tap sees it. It may read a vector behind a row.
func (t *Taps) Scatter(channels int, image, matrix []float32, line int) {
	p, size := &t.image, t.image.H*t.image.W
	c := t.call(line)
	c.srcPlane, c.dstPlane = 4*p.R*p.S*line, 4*size
	if t.whole {
		c.planes, c.rows, c.src, c.dst = channels, 1, &matrix[0], &image[0]
		vecScatterTaps(&c)
		return
	}
	if t.single {
		t.spread(&c, channels, image, matrix)
		return
	}
	if !t.coversRows() {
		clear(image[:channels*size])
	}
	c.srcRow, c.dstRow = 4*p.OutW(), 4*p.StrideH*p.W
	for r := range p.R {
		if from, end := p.seeingRows(r); from < end {
			c.planes, c.rows = channels, end-from
			c.src, c.dst = &matrix[r*p.S*line+from*p.OutW()], &image[(from*p.StrideH+r*p.DilationH()-p.PadH)*p.W]
			vecScatterTaps(&c)
		}
	}
}

// coversRows reports whether taps see every row of the image.
func (t *Taps) coversRows() bool {
	p := &t.image
	return p.StrideH <= p.R && p.OutH()*p.StrideH >= p.H+p.PadH
}

func (t *Taps) call(line int) tapRows {
	return tapRows{blocks: len(t.blocks), taps: t.taps(), tap: 4 * line, table: &t.blocks[0], orders: &t.orders[0]}
}

// gather runs the kernel.
func (t *Taps) gather(c *tapRows) {
	if t.single {
		t.pick(c)
		return
	}
	switch t.sources {
	case 1:
		vecGatherTaps1(c)
	case 2:
		vecGatherTaps2(c)
	case 3:
		vecGatherTaps3(c)
	case 4:
		vecGatherTaps4(c)
	}
}
