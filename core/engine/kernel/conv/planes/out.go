package planes

import (
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/geometry"
)

// planeOut is how h×w pixels of some images are computed from a frame. Rows of a vector or more go to
// their places, where the last vector overlaps the one before it. Narrower ones are
// computed side by side, as the frame has them, in rows of long vectors.
type planeOut struct {
	h, w, images int
	pitch, width int // of the frame
	lanes        int
	long         int // vectors of a row of all images, or 0
}

func (f *planeFrame) out(h, w int) planeOut {
	const manyElems = 64
	o := planeOut{h: h, w: w, images: f.images, pitch: f.pitch, width: f.width, lanes: narrow}
	all := (f.images-1)*f.pitch + w
	wider := kernel.Lanes()
	switch {
	case w < narrow && all < manyElems:
		o.long = kernel.CeilDiv(all, narrow)
	case w < narrow:
		o.lanes, o.long = wider, kernel.CeilDiv(all, wider)
	case w >= wider && kernel.CeilDiv(w, wider)*wider == kernel.CeilDiv(w, narrow)*narrow:
		o.lanes = wider
	}
	return o
}

// line is the elements between the rows of the result, where it is not written to its place;
// image those between images, and elems the size of it.
func (o *planeOut) line() int {
	if o.long > 0 {
		return o.long * o.lanes
	}
	return o.w
}

func (o *planeOut) image() int {
	if o.long > 0 {
		return o.pitch
	}
	return o.h * o.w
}

func (o *planeOut) elems() int {
	if o.long > 0 {
		return o.h * o.line()
	}
	return o.images * o.image()
}

// run computes the pixels of some images, whose rows lie line elements apart, and which lie image
// elements apart; every is the distance of taps below each other.
func (o *planeOut) run(t *planeTile, images, every, image, line int, x, y []float32) {
	t.xImage, t.yImage = 4*o.pitch, 4*image
	t.xStep, t.yStep = 4*every*o.width, 4*every*line
	if o.long > 0 {
		o.blocks(t, 1, every, line, 0, o.long, x, y)
		return
	}
	o.blocks(t, images, every, line, 0, o.w/o.lanes, x, y)
	if o.w%o.lanes > 0 {
		o.blocks(t, images, every, line, o.w-o.lanes, 1, x, y)
	}
}

// blocks computes count vectors of each row, from column from on.
func (o *planeOut) blocks(t *planeTile, images, every, line, from, count int, x, y []float32) {
	for first := range min(every, o.h) {
		rows := kernel.CeilDiv(o.h-first, every)
		tiles := kernel.CeilDiv(rows, tileRows)
		for row := first; rows > 0; {
			height := kernel.CeilDiv(rows, tiles)
			if t.groups = rows % tiles; t.groups == 0 {
				t.groups = tiles
			}
			t.xGroup, t.yGroup = height*t.xStep, height*t.yStep
			o.tiles(t, images, height, count, x[row*o.width+from:], y[row*line+from:])
			tiles -= t.groups
			rows -= t.groups * height
			row += t.groups * height * every
		}
	}
}

// tiles computes tiles of that height, of count vectors beside each other.
func (o *planeOut) tiles(t *planeTile, images, height, count int, x, y []float32) {
	t.images, t.blocks, t.block, t.x, t.y = images, count, 4*o.lanes, &x[0], &y[0]
	if height > tilePairs {
		runPlaneTile(o.lanes, height, t)
		return
	}
	if t.blocks = count / 2; t.blocks > 0 {
		t.block, t.next = 8*o.lanes, 4*o.lanes
		runPlaneTile(o.lanes, height, t)
	}
	if count%2 > 0 {
		last := (count - 1) * o.lanes
		t.images, t.blocks, t.next, t.x, t.y = images, 1, 0, &x[last], &y[last]
		runPlaneTile(o.lanes, height, t)
	}
}

// cut copies rows of long vectors to y, whose images and rows lie so many elements apart.
func (o *planeOut) cut(images int, long, y []float32, between, line int) {
	c := geometry.PlaneCopy{Images: images, Rows: o.h, Src: &long[0], SrcImage: 4 * o.image(), SrcRow: 4 * o.line(), Dst: &y[0], DstImage: 4 * between, DstRow: 4 * line}
	c.SetWidth(o.w, 1)
	c.Cut()
}
