package images

import (
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/cost"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/geometry"
)

// views is what the taps of a phase see of an image, where pixels are the rows of tiles: one behind the other for each tap. Before the channels
// lies one of ones, which the bias is multiplied by.
type views struct {
	pass                 *pass
	h, w                 geometry.Phase
	at                   int // where they begin
	first                int // of what the first tap sees of the first pixel
	channel, row, column int // elements from a channel, a row of taps and a column of taps to the next
	rows                 int // of pixels that a column of taps has
	strided              bool
}

func (c *pass) newViews(h, w geometry.Phase) views {
	v := views{pass: c, h: h, w: w, strided: !c.grad && !c.p.Stride1()}
	if v.strided {
		v.column = v.pixels() + kernel.Lanes() // vectors go behind the last pixel
		v.row = w.N * v.column
		v.channel = h.N * v.row
		return v
	}
	v.rows = h.Axis.Span(h.Pixels)
	v.column = v.rows * w.Pixels
	v.row = h.Axis.Step * w.Pixels
	v.channel = w.N * v.column
	v.first = h.Axis.Tap(0) * w.Pixels
	return v
}

func (v *views) pixels() int { return v.h.Pixels * v.w.Pixels }

// elems is the room for the channels.
func (v *views) elems() int { return (v.pass.channels + 1) * v.channel }

// count adds what filling them for so many images takes.
func (v *views) count(images float64, t *cost.Terms) {
	c := v.pass
	if v.strided {
		taps := geometry.NewTaps(c.p, false)
		_, picks := taps.Picks()
		t[picked] += images * float64(picks*c.channels)
		return
	}
	runs := c.channels * v.w.N
	if v.w.Pixels != c.in.w {
		runs *= v.rows
	}
	t[viewRuns] += images * float64(runs)
	t[viewed] += images * float64(c.channels*v.channel)
}

// tableElems is the room for the tables by which pixels are picked.
func (c *pass) tableElems() int {
	if c.grad || c.p.Stride1() {
		return 0
	}
	t := geometry.NewTaps(c.p, false)
	return t.Elems()
}

// fill writes what the taps see of a group's channels. Padding is zero already.
func (o *outputs) fill(v *views, x []float32) {
	c, dst := o.pass, o.views[v.at+v.channel:]
	if v.strided {
		o.taps.Gather(c.channels, x, dst, v.column)
		return
	}
	for ch := range c.channels {
		for t := range v.w.N {
			v.shift(v.w.Axis.First+t*v.w.Axis.Step, x[ch*c.in.pixels():], dst[ch*v.channel+t*v.column:])
		}
	}
}

// shift copies the rows that a column of taps sees, which looks so many pixels to the right.
func (v *views) shift(right int, plane, dst []float32) {
	in, width := &v.pass.in, v.w.Pixels
	least := v.h.Axis.Least()
	top, bottom := max(0, -least), min(v.rows, in.h-least)
	left, end := max(0, -right), min(width, in.w-right)
	if top >= bottom || left >= end {
		return
	}
	from := plane[(top+least)*in.w+left+right:]
	to := dst[top*width+left:]
	if width != in.w {
		for i := range bottom - top {
			copy(to[i*width:][:end-left], from[i*in.w:])
		}
		return
	}
	copy(to[:(bottom-top-1)*width+end-left], from)
	beyond := width - end + left // of each row, which has been copied, too
	for i := range bottom - top - 1 {
		for j := range beyond {
			to[i*width+end-left+j] = 0
		}
	}
}
