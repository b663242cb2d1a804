package geometry

import (
	"unsafe"

	"github.com/trainctl/trainctl/core/engine/kernel"
)

// Windows copies what the taps of filters see of images to rows of a matrix, one row for each channel and tap and one column for each pixel
// of all images. It is for filters whose taps lie beside each other, with any stride and padding, overlapping or not: squares of four taps and four
// pixels are turned, in blocks of as many pixels as a vector has lanes, which cross the ends of rows and of images.
type Windows struct {
	p            Shape
	framed       bool // images are copied into frames of padding first
	frame        Frame
	width, plane int // of what windows see: elements of a row and of a channel
	images, rows int // of a unit, whose pixels fill vectors
	count        int // channels that are copied
	channels     int // that have groups in the table
	whole, rest  places
	groups       []tapGroup
	line, planes int       // of the matrix that the groups are for, and channels that they are of
	frames       []float32 // of the images of a unit
}

// windowTaps is a call of the kernel, which counts in units. All steps are bytes. The layout is known to gen/conv/windows.go.
type windowTaps struct {
	units, blocks, overlap, groups int // overlap is that of a unit's last block and the one before; groups are taken squaresAtOnce at a time
	src, dst                       *float32
	srcUnit, dstUnit               int
	tap                            int // from a row of dst to the next
	places                         *int
	table                          *tapGroup
	blocksLeft                     int // the kernel's own
}

// tapGroup is four taps that are turned at once: bytes to the first in src and in dst.
type tapGroup struct{ src, dst int }

// places are the bytes from a unit's first pixel to all of them, with copies of the last up to a whole vector.
type places struct {
	images, rows, pixels int
	at                   []int
}

// Squares are of so many taps, and pixels: filters have at least so many columns. The kernel turns so many squares at a time.
const squareTaps, squaresAtOnce = 4, 2

// A unit has at most so many pixels, and as many images or rows as fill whole vectors, or fewer if so many blocks waste little of the last; a call
// has at most so many groups of taps.
const (
	mostPlaces = 512
	manyBlocks = 8
	mostGroups = 512
)

// FitsWindows reports whether Windows takes images of p.
func (p *Shape) FitsWindows() bool { return p.DilationW() == 1 && p.S >= squareTaps }

// NewWindows is for images of p.
func NewWindows(p *Shape) Windows {
	w := Windows{p: *p, framed: p.PadH+p.PadW > 0, width: p.W, plane: p.H * p.W}
	if w.framed {
		w.frame = p.PaddedFrame()
		w.width, w.plane = w.frame.Width, w.frame.Plane
	}
	w.channels = min(p.C, max(1, mostGroups/w.channelGroups()))
	w.images, w.rows = 1, p.OutH()
	if pixels := p.OutH() * p.OutW(); pixels <= mostPlaces {
		w.images = unitOf(pixels)
	} else {
		w.rows = min(p.OutH(), unitOf(p.OutW()))
	}
	return w
}

// unitOf is how many runs of so many pixels a unit has.
func unitOf(pixels int) int {
	lanes := kernel.Lanes()
	if pixels >= manyBlocks*lanes {
		return 1
	}
	n := 1
	for n*pixels%lanes > 0 && 2*n*pixels <= mostPlaces {
		n *= 2
	}
	return n
}

// channelGroups is the groups of taps of a channel.
func (w *Windows) channelGroups() int { return w.p.R * kernel.CeilDiv(w.p.S, squareTaps) }

// tableGroups is the groups of the table: the last is there twice if their number is odd.
func (w *Windows) tableGroups() int {
	return kernel.CeilDiv(w.channels*w.channelGroups(), squaresAtOnce) * squaresAtOnce
}

// between is the elements from an image to the next of what windows see.
func (w *Windows) between() int { return w.p.C * w.plane }

// placeElems is the room for the places of a unit.
func (w *Windows) placeElems() int {
	return 2 * kernel.CeilDiv(w.images*w.rows*w.p.OutW(), kernel.Block) * kernel.Block
}

// Elems is the room for tables and frames.
func (w *Windows) Elems() int {
	const group = int(unsafe.Sizeof(tapGroup{}) / 4)
	n := 2*w.placeElems() + w.tableGroups()*group
	if w.framed {
		n += w.images*w.between() + kernel.Block
	}
	return n
}

// Copies is how many squares of four taps and a vector of pixels are turned for so many images, and how many rows are copied to frames.
func (w *Windows) Copies(images int) (squares, rows int) {
	p, lanes := &w.p, kernel.Lanes()
	blocks := kernel.CeilDiv(images*p.OutH()*p.OutW(), lanes)
	if w.rows < p.OutH() {
		blocks = images * (p.OutH()/w.rows*kernel.CeilDiv(w.rows*p.OutW(), lanes) + kernel.CeilDiv(p.OutH()%w.rows*p.OutW(), lanes))
	}
	if w.framed {
		rows = images * p.C * p.H
	}
	return blocks * p.C * w.channelGroups(), rows
}

// SetTables takes Elems elements of room for tables and frames, before the first Gather.
func (w *Windows) SetTables(room []float32) {
	const group = int(unsafe.Sizeof(tapGroup{}) / 4)
	n := w.placeElems()
	for i, t := range []*places{&w.whole, &w.rest} {
		t.images, t.at = 0, unsafe.Slice((*int)(unsafe.Pointer(&room[i*n])), n/2)
	}
	room = room[2*n:]
	n = w.tableGroups()
	w.line = 0
	w.groups, w.frames = unsafe.Slice((*tapGroup)(unsafe.Pointer(&room[0])), n), room[n*group:]
	clear(w.frames)
}

// setGroups fills the table of taps of so many channels for a matrix whose rows lie line apart.
func (w *Windows) setGroups(line, channels int) {
	if w.line == line && w.planes == channels {
		return
	}
	w.line, w.planes = line, channels
	p, perRow := &w.p, kernel.CeilDiv(w.p.S, squareTaps)
	for i := range w.groups {
		group := &w.groups[i]
		i = min(i, channels*w.channelGroups()-1)
		row, s := i/perRow, min(i%perRow*squareTaps, p.S-squareTaps)
		c, r := row/p.R, row%p.R
		*group = tapGroup{src: 4 * (c*w.plane + r*p.DilationH()*w.width + s), dst: 4 * (row*p.S + s) * line}
	}
}

// set makes t the places of so many images, or rows of one.
func (w *Windows) set(t *places, images, rows int) {
	if t.images == images && t.rows == rows {
		return
	}
	t.images, t.rows, t.pixels = images, rows, 0
	for i := range images * rows {
		at := i/rows*w.between() + i%rows*w.p.StrideH*w.width
		for range w.p.OutW() {
			t.at[t.pixels] = 4 * at
			t.pixels++
			at += w.p.StrideW
		}
	}
	for i := t.pixels; i < kernel.Lanes(); i++ {
		t.at[i] = t.at[t.pixels-1]
	}
}

// Gather copies channels of images, from one on, to a matrix, whose rows lie line apart, and have the pixels of one image behind those
// of the other. It may write behind a row: a vector less one.
func (w *Windows) Gather(images, channel, channels int, x, matrix []float32, line int) {
	p, size, pixels := &w.p, w.p.C*w.p.H*w.p.W, w.p.OutH()*w.p.OutW()
	w.count = channels
	w.setGroups(line, min(channels, w.channels))
	step := 1
	switch {
	case w.rows < p.OutH():
	case w.framed:
		step = w.images
	default: // all at once
		step = images
	}
	for first := 0; first < images; first += step {
		n := min(step, images-first)
		src := x[first*size:]
		if w.framed {
			for i := range n {
				w.frame.Fill(src[i*size:], w.frames[i*w.between():])
			}
			src = w.frames
		}
		src = src[channel*w.plane:]
		w.gather(n, src, matrix[first*pixels:], line)
	}
}

// gather copies images that lie between apart: units of images, or of the rows of one, and what is left.
func (w *Windows) gather(images int, src, dst []float32, line int) {
	p := &w.p
	if w.rows < p.OutH() {
		units, left := p.OutH()/w.rows, p.OutH()%w.rows
		w.set(&w.whole, 1, w.rows)
		w.run(&w.whole, units, w.rows*p.StrideH*w.width, src, dst, line)
		if left > 0 {
			w.set(&w.rest, 1, left)
			w.run(&w.rest, 1, 0, src[units*w.rows*p.StrideH*w.width:], dst[units*w.rows*p.OutW():], line)
		}
		return
	}
	units, left := images/w.images, images%w.images
	if units > 0 {
		w.set(&w.whole, w.images, p.OutH())
		w.run(&w.whole, units, w.images*w.between(), src, dst, line)
	}
	if left > 0 {
		w.set(&w.rest, left, p.OutH())
		w.run(&w.rest, 1, 0, src[units*w.images*w.between():], dst[units*w.images*p.OutH()*p.OutW():], line)
	}
}

// run copies so many units of pixels, which lie between apart.
func (w *Windows) run(t *places, units, between int, src, dst []float32, line int) {
	p, lanes := &w.p, kernel.Lanes()
	blocks := kernel.CeilDiv(t.pixels, lanes)
	c := windowTaps{
		blocks: blocks, srcUnit: 4 * between, dstUnit: 4 * t.pixels, tap: 4 * line,
		places: &t.at[0], table: &w.groups[0],
	}
	if blocks > 1 {
		c.overlap = 4 * (blocks*lanes - t.pixels)
	}
	for ch := 0; ch < w.count; ch += w.planes {
		first := min(ch, w.count-w.planes)
		c.units, c.groups = units, kernel.CeilDiv(w.planes*w.channelGroups(), squaresAtOnce)
		c.src, c.dst = &src[first*w.plane], &dst[first*p.R*p.S*line]
		vecWindowTaps(&c)
	}
}
