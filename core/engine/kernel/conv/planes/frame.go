package planes

import (
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/geometry"
)

// planeElems bounds the frames that are worked on at once, so that they stay in the L1 cache; denseElems those of
// all channels of a group, which stay in the L2 cache.
const (
	planeElems = 1 << 11
	denseElems = 1 << 16
)

// narrow is the lanes of the narrowest vectors, which rows of copies are written in.
const narrow = 8

// planeFrame is where the planes of one channel of some images lie side by side: [phases of rows][phases of
// columns][rows][width]. Element (0, 0) of a plane is top and left elements from the corner,
// before the split.
type planeFrame struct {
	stepH, stepW, top, left int
	h, w                    int // of what is copied: the rest is never looked at
	images, rows            int
	pitch, width            int // elements from an image to the next, and of a row
	phase                   int // elements
	copies                  [maxStride]frameCopy
}

// newPlaneFrame is for planes of h×w of whose phases rows×columns are looked at by rows of out
// pixels, of as many of images as fit into room elements.
func newPlaneFrame(images, room, h, w, stepH, stepW, top, left, rows, columns, out int) planeFrame {
	f := planeFrame{stepH: stepH, stepW: stepW, top: top, left: left, rows: rows}
	shared := left / stepW // zeros that end an image, and begin the next
	last := min(columns-1, (left+w-1)/stepW)
	f.h, f.w = min(h, rows*stepH-top), min(w, (last+1)*stepW-left)
	f.pitch = max(columns-shared, last+1, out)
	f.images = min(images, max(1, room/(stepH*stepW*rows*f.pitch)))
	f.images = kernel.CeilDiv(images, kernel.CeilDiv(images, f.images)) // the last batch is no smaller: dense sums over zeros
	f.width = f.images*f.pitch + shared + narrow
	f.phase = rows*f.width + kernel.Block
	return f
}

// elems is the size of the frame.
func (f *planeFrame) elems() int { return f.stepH*f.stepW*f.phase + kernel.Block }

// at is the place that an element of the first image's padded plane has in the frame.
func (f *planeFrame) at(row, col int) int {
	return (row%f.stepH*f.stepW+col%f.stepW)*f.phase + row/f.stepH*f.width + col/f.stepW
}

// frameCopy is how the rows of one phase get into a frame.
type frameCopy struct {
	geometry.PlaneCopy
	from, to int // elements
}

// passes is how many copies fill a frame: two phases of rows take turns in one, so that x is read in order.
func (f *planeFrame) passes() int {
	if f.stepH == 2 && f.stepW <= 2 {
		return 1
	}
	return min(f.stepH, f.h)
}

// prepare lists the copies from planes of rows of n elements, between elements apart.
func (f *planeFrame) prepare(between, n int) {
	passes := f.passes()
	for i := range passes {
		c := frameCopy{from: i * n, to: f.at(f.top+i, f.left)}
		c.PlaneCopy = geometry.PlaneCopy{Rows: kernel.CeilDiv(f.h-i, passes), SrcImage: 4 * between, SrcRow: 4 * passes * n, DstImage: 4 * f.pitch}
		c.DstRow, c.DstPair = 4*(f.at(f.top+i+passes, f.left)-c.to), 4*(f.at(f.top+i+2*passes, f.left)-c.to)
		c.SetWidth(f.w, min(f.stepW, 2))
		c.Odd = 4 * (f.at(f.top+i, f.left+1) - c.to)
		f.copies[i] = c
	}
}

// fill copies planes into a cleared frame.
func (f *planeFrame) fill(images int, x, frame []float32) {
	for i := range f.passes() {
		c := &f.copies[i]
		c.Images, c.Src, c.Dst = images, &x[c.from], &frame[c.to]
		switch f.stepW {
		case 1:
			c.Frame()
		case 2:
			c.Split()
		default:
			for j := range min(f.stepW, f.w) {
				c.Pick(x[c.from:], frame[f.at(f.top+i, f.left+j):], j, f.w, f.stepW)
			}
		}
	}
}
