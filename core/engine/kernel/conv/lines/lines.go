package lines

import (
	"unsafe"

	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/geometry"
)

// Lines is a depthwise convolution of planes of one row, or of one column, with a filter that lies along it. What a tap sees of a row
// is the row itself, some elements on. Where vectors have sixteen lanes, windows see it; see window.go. Elsewhere, vectors that see no more than the row look at x itself; at the ends of rows masks
// leave out what lies beside them. Filters that are long for the rows, and strides of 2, see rows in frames of zeros instead.
type Lines struct {
	images, channels int
	outputs          int // of each channel
	in, out          int // elements of a row of x, and of y
	taps, step       int // elements of x from what a tap sees to what the next one does
	stride, pad      int
}

// lineTile is some vectors of a row, or, if there are none, one that sees the lanes of masks. Steps are bytes. The layout is known to
// gen/conv/lines.go, as is that of the calls below.
type lineTile struct{ x, y, vectors, masks int }

// lineTaps is a call of the kernel of results.
type lineTaps struct {
	x, y               *float32
	channels           int
	xChannel, yChannel int
	tiles              int
	table              *lineTile
	masks              *float32
	taps               int
	off                *int
	weights            *float32
	weightsChannel     int
	bias               *float32
	biasNext           int
	xAt, yAt, left     int // room for the kernel: addresses that it moves on are no pointers
	weightsAt, biasAt  int
}

// lineDots is a call of the kernels of weight gradients, which add to the sums [channels][taps][lanes].
type lineDots struct {
	x, dy                   *float32
	channels                int
	xChannel, dyChannel     int
	tiles                   int
	table                   *lineTile
	masks                   *float32
	viewMasks               int // from the mask of dy to that of the first tap
	off                     *int
	images, xImage, dyImage int
	sums                    *float32
	sumsChannel             int
	xChannelAt, dyChannelAt int // room for the kernel, as above
	xAt, dyAt, left         int
	imagesLeft, sumsAt      int
}

const (
	narrow       = 8       // lanes of the vectors of kernels without windows, and of copies
	lineVectors  = 8       // of a tile, at most
	lineDotTaps  = 8       // whose sums a kernel keeps
	lineElems    = 1 << 12 // that are worked on at once, of frames or for several groups of taps
	lineTileSize = int(unsafe.Sizeof(lineTile{})) / 4
)

// Of is the convolution along rows that p is, if it is one.
func Of(p *geometry.Shape) (l Lines, ok bool) {
	l = Lines{images: p.N, channels: p.C, outputs: p.K / p.C}
	switch {
	case !p.Depthwise():
		return l, false
	case p.R == 1 && p.PadH == 0 && p.H == 1:
		l.in, l.out, l.taps, l.step, l.stride, l.pad = p.W, p.OutW(), p.S, p.DilationW(), p.StrideW, p.PadW
	case p.S == 1 && p.PadW == 0 && p.W == 1:
		l.in, l.out, l.taps, l.step, l.stride, l.pad = p.H, p.OutH(), p.R, p.DilationH(), p.StrideH, p.PadH
	default:
		return l, false
	}
	if l.outputs > 1 && (!windowed() || l.outputs*l.taps > mostTaps) {
		return l, false
	}
	return l, l.stride <= 2 && min(l.out, kernel.CeilDiv(l.in, l.stride)) >= narrow && l.pad <= (l.taps-1)*l.step
}

// back is the convolution that the gradient of x is, with stride 1 and the filters turned around. With stride 2, see gradPhases.
func (l Lines) back() Lines {
	l.in, l.out, l.pad = l.out, l.in, (l.taps-1)*l.step-l.pad
	return l
}

// sees reports whether all taps of a vector from an element of y on see elements of the row.
func (l *Lines) sees(at int) bool {
	return at >= l.pad && at+narrow+(l.taps-1)*l.step-l.pad <= l.in
}

// vectors counts those of a row of y, and those of them that see more than the row.
func (l *Lines) vectors() (all, masked int) {
	all = kernel.CeilDiv(l.out, narrow)
	for v := range all {
		if !l.sees(min(v*narrow, l.out-narrow)) {
			masked++
		}
	}
	return all, masked
}

// framed reports whether rows of x are seen in frames.
func (l *Lines) framed() bool {
	const mask, copied, row = 3, 2.5, 8 // products that a mask, a vector of a copy and a row take as long as
	all, masked := l.vectors()
	return l.stride > 1 || mask*float64(masked*l.taps) > copied*float64(kernel.CeilDiv(l.in, narrow))+row && all > 0
}

// lineFrame is rows of x with zeros beside them, side by side, those of the phases of a stride behind each other.
type lineFrame struct {
	l     Lines
	row   int // elements from a row to the next
	phase int
	copy  geometry.PlaneCopy
}

func newLineFrame(l *Lines) lineFrame {
	f := lineFrame{l: *l}
	end := max(l.pad+l.in, (l.out-1)*l.stride+(l.taps-1)*l.step+1)
	f.phase = kernel.CeilDiv(end, l.stride) + narrow
	f.row = l.stride * f.phase
	f.copy = geometry.PlaneCopy{SrcRow: 4 * l.in, DstRow: 4 * f.row, Odd: 4 * (f.at(l.pad+1) - f.at(l.pad))}
	f.copy.SetWidth(l.in, l.stride)
	return f
}

// at is the place of an element of a padded row.
func (f *lineFrame) at(i int) int { return i%f.l.stride*f.phase + i/f.l.stride }

// channels is how many of them are worked on at once, of so many images.
func (f *lineFrame) channels(images int) int {
	return min(f.l.channels, max(1, lineElems/(images*f.row)))
}

// elems is the size of frames of so many channels.
func (f *lineFrame) elems(channels int) int { return channels*f.row + 2*kernel.Block }

// fill copies channels from x on.
func (f *lineFrame) fill(channels int, x, frame []float32) {
	f.copy.Images, f.copy.Rows = 1, channels // which the kernels count down
	f.copy.Src, f.copy.Dst = &x[0], &frame[f.at(f.l.pad)]
	if f.l.stride == 1 {
		f.copy.Frame()
	} else {
		f.copy.Split()
	}
}

// lineTable is the tiles of a channel, and what each tap sees.
type lineTable struct {
	l      Lines
	framed bool
	frame  lineFrame
	xRow   int // elements of what is seen: from a row to the next
	tiles  []lineTile
	masks  []float32
	off    []int
}

// tableElems is the scratch that a table takes at most.
func (l *Lines) tableElems() int {
	all, masked := l.vectors()
	tiles := masked + 3 + kernel.CeilDiv(all, lineVectors)
	return kernel.Block + tiles*lineTileSize + 2*l.taps + (masked+1)*(l.taps+1)*narrow
}

// table lists the tiles in scratch: of results, or of sums, in which no element of y counts twice.
func (l *Lines) table(framed, sums bool, scratch []float32) (t lineTable, rest []float32) {
	t = lineTable{l: *l, framed: framed, xRow: l.in}
	rest = geometry.Aligned(scratch)
	t.off = unsafe.Slice((*int)(unsafe.Pointer(&rest[0])), l.taps)
	rest = rest[2*l.taps:]
	for i := range t.off {
		t.off[i] = 4 * (i*l.step - l.pad)
	}
	if t.framed {
		t.frame = newLineFrame(l)
		t.xRow = t.frame.row
		for i := range t.off {
			t.off[i] = 4 * t.frame.at(i*l.step)
		}
	}
	all, masked := l.vectors()
	n := masked + 3 + kernel.CeilDiv(all, lineVectors)
	t.tiles = unsafe.Slice((*lineTile)(unsafe.Pointer(&rest[0])), n)[:0]
	rest = rest[n*lineTileSize:]
	n = (masked + 1) * (l.taps + 1) * narrow
	t.masks, rest = rest[:0:n], rest[n:]
	t.list(sums)
	return t, rest
}

// list lists the tiles of a row.
func (t *lineTable) list(sums bool) {
	l := &t.l
	from, count, sets := 0, 0, 0 // vectors that are not listed yet
	flush := func() {
		tiles := kernel.CeilDiv(count, lineVectors)
		if sums {
			tiles = min(tiles, 1)
		}
		for ; tiles > 0; tiles-- {
			n := kernel.CeilDiv(count, tiles)
			t.tiles = append(t.tiles, t.tile(from, n))
			from, count = from+n*narrow, count-n
		}
	}
	for v := range kernel.CeilDiv(l.out, narrow) {
		at := min(v*narrow, l.out-narrow)
		if sums && at < v*narrow || !t.framed && !l.sees(at) {
			flush()
			tile := t.tile(at, 0)
			tile.masks = 4 * sets * (l.taps + 1) * narrow
			t.tiles = append(t.tiles, tile)
			t.mask(at, v*narrow)
			sets++
			continue
		}
		if count == 0 || at != from+count*narrow {
			flush()
			from = at
		}
		count++
	}
	flush()
}

func (t *lineTable) tile(at, vectors int) lineTile {
	return lineTile{x: 4 * at, y: 4 * at, vectors: vectors}
}

// mask appends the masks of a vector: of the elements of y that no vector before it has, and of what each tap sees.
func (t *lineTable) mask(at, counted int) {
	t.appendMask(func(lane int) bool { return at+lane >= counted })
	for tap := range t.l.taps {
		t.appendMask(func(lane int) bool {
			seen := at + lane + tap*t.l.step - t.l.pad
			return t.framed || seen >= 0 && seen < t.l.in
		})
	}
}

func (t *lineTable) appendMask(has func(lane int) bool) {
	n := len(t.masks)
	t.masks = t.masks[:n+narrow]
	bits := unsafe.Slice((*uint32)(unsafe.Pointer(&t.masks[n])), narrow)
	clear(bits)
	for lane := range bits {
		if has(lane) {
			bits[lane] = ^uint32(0)
		}
	}
}

// masksFrom is those of all tiles, but for some before.
func (t *lineTable) masksFrom(skip int) *float32 {
	return &t.masks[:cap(t.masks)][skip*narrow]
}

// taps is the call for some channels of an image.
func (t *lineTable) taps(channels int, x, weights, y *float32) lineTaps {
	l := &t.l
	return lineTaps{
		x: x, y: y, channels: channels, xChannel: 4 * t.xRow, yChannel: 4 * l.out, tiles: len(t.tiles), table: &t.tiles[0],
		masks: t.masksFrom(1), taps: l.taps, off: &t.off[0], weights: weights, weightsChannel: 4 * l.taps, bias: &geometry.NoBias[0],
	}
}

// strays is how many channels at the ends of a tensor have vectors that look beyond it.
func (l *Lines) strays() int { return kernel.CeilDiv(l.reach(), l.in) }

// reach is how many elements beside a row taps look at, at most.
func (l *Lines) reach() int { return max(l.pad, (l.taps-1)*l.step-l.pad) }

// guardElems is the size of copies of a channel of so many images, with room beside them.
func (l *Lines) guardElems(images int) int { return images*l.in + 2*l.reach() + kernel.Block }

// guard copies a channel of images from x on, and returns where that of the first lies. Vectors may look beside it.
func (l *Lines) guard(images int, x, room []float32) *float32 {
	n, at := l.in, l.reach()
	for i := range images {
		copy(room[at+i*n:][:n], x[i*l.channels*n:])
	}
	return &room[at]
}

// edges calls run for runs of channels of some images, and edge for single channels whose vectors look beyond the tensor.
func (t *lineTable) edges(n, images, most int, edge func(c int), run func(c, channels int)) {
	l, from, strays := &t.l, 0, 0
	if !t.framed {
		strays = t.l.strays()
	}
	if n == 0 {
		from = min(strays, l.channels)
	}
	to := l.channels
	if n+images == l.images {
		to = max(from, to-strays)
	}
	for c := range from {
		edge(c)
	}
	for c := from; c < to; c += most {
		run(c, min(most, to-c))
	}
	for c := to; c < l.channels; c++ {
		edge(c)
	}
}

// Forward computes y = conv(x, w) + bias; bias may be nil. Scratch has the elements that l.Scratch says.
func (l *Lines) Forward(x, w, bias, y, scratch []float32) {
	if windowed() {
		l.windowResults(false, x, w, bias, y, scratch)
		return
	}
	l.convolve(x, w, bias, y, scratch)
}

// convolve computes y from x and weights [channels][taps].
func (l *Lines) convolve(x, weights, bias, y, scratch []float32) {
	t, room := l.table(l.framed(), false, scratch)
	most := l.channels
	if t.framed {
		most = t.frame.channels(1)
		clear(room[:t.frame.elems(most)])
	}
	plane, result := l.in, l.out
	for n := range l.images {
		results := func(c, channels int, from *float32) {
			call := t.taps(channels, from, &weights[c*l.taps], &y[(n*l.channels+c)*result])
			if bias != nil {
				call.bias, call.biasNext = &bias[c], 4
			}
			vecLineTaps(&call)
		}
		x := x[n*l.channels*plane:]
		t.edges(n, 1, most, func(c int) {
			results(c, 1, l.guard(1, x[c*plane:], room))
		}, func(c, channels int) {
			from := &x[c*plane]
			if t.framed {
				t.frame.fill(channels, x[c*plane:], room)
				from = &room[0]
			}
			results(c, channels, from)
		})
	}
}

// Scratch is the number of scratch elements that a direction needs.
func (l Lines) Scratch(d geometry.Direction) int {
	n := l.channels * l.taps
	switch {
	case windowed():
		return l.windowScratch(d)
	case d == geometry.ToInput && l.stride > 1:
		return l.phasesScratch()
	case d == geometry.ToInput:
		l = l.back()
	case d == geometry.ToWeight:
		n *= kernel.Block + 2
	}
	n += l.tableElems() + kernel.Block
	if !l.framed() {
		return n + l.guardElems(l.together())
	}
	f := newLineFrame(&l)
	return n + max(f.elems(f.channels(1)), l.together()*f.elems(f.channels(l.together())))
}

// Work is how often a direction does what takes time.
type Work struct {
	Rows, FrameRows, FrameVectors float64 // rows, those that are copied to frames, and vectors of these
	Products, Masked              float64 // vectors of 512 bits multiplied, and vectors multiplied of which a mask leaves some lanes out
	WindowProducts, WindowLoads   float64 // vectors multiplied after a permutation, and those that are loaded or stored
}

// Work counts what a direction does.
func (l Lines) Work(d geometry.Direction) (w Work) {
	if windowed() {
		return l.windowWork(d)
	}
	if d == geometry.ToInput && l.stride == 1 {
		l = l.back()
	}
	rows := float64(l.images * l.channels)
	all, masked := l.vectors()
	w.Rows = rows
	if l.framed() {
		w.FrameRows, w.FrameVectors = rows, rows*float64(kernel.CeilDiv(l.in, narrow))
		masked = 0
	}
	w.Products = rows * float64((all-masked)*l.taps*narrow) / kernel.Block
	w.Masked = rows * float64(masked*l.taps)
	return w
}
