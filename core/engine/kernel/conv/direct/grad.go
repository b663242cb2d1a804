package direct

import (
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/geometry"
)

// maxStride is the longest stride whose input gradient is computed directly.
const maxStride = 4

// takesInput reports whether the input gradient is computed directly.
func takesInput(p *geometry.Shape) bool { return max(p.StrideH, p.StrideW) <= maxStride }

// gradOut is how dx is computed: every phase of its rows and columns is a convolution with stride 1 over a frame of dy,
// by the taps that reach it. Phases of rows are written to their places; those of columns to room, and then joined.
type gradOut struct {
	p          *geometry.Shape
	frame      geometry.Frame
	out        int // channels of a group
	rows, cols int // of the tallest phase; all have as many columns, if the last counts or not
	phase      int // elements of a phase in room, and of spread planes
	joins      bool
}

func newGradOut(p *geometry.Shape) gradOut {
	o := gradOut{
		p: p, frame: p.GradFrame(), out: p.C / p.GroupCount(), joins: p.StrideW > 1,
		rows: kernel.CeilDiv(p.H, p.StrideH), cols: kernel.CeilDiv(p.W, p.StrideW),
	}
	o.phase = o.out * ((o.rows-1)*o.frame.Width + o.cols)
	return o
}

// room is that for phases, or for spread planes of one, with what copies read behind them.
func (o *gradOut) room() int {
	if o.joins {
		return o.p.StrideH*o.p.StrideW*o.phase + kernel.Block
	}
	return o.phase + kernel.Block
}

func (o gradOut) scratch() int {
	return o.frame.Elems() + o.room() + tapElems(o.p, o.frame.Channels, o.out)
}

// gradCall computes a phase: rows of dx from first on, a stride apart.
type gradCall struct {
	call
	first, rows int
	line        int // elements between rows in room
}

// GradInput overwrites dx with the gradient of the input.
func GradInput(p *geometry.Shape, dy, w, dx, scratch []float32) {
	o, kg, plane, phases := newGradOut(p), p.K/p.GroupCount(), p.OutH()*p.OutW(), p.StrideH*p.StrideW
	image, rest := scratch[:o.frame.Elems()], scratch[o.frame.Elems():]
	room, rest := rest[:o.room()], rest[o.room():]
	clear(image)
	if o.joins {
		clear(room) // phases that no tap reaches stay zero
	}
	var calls [maxStride * maxStride]gradCall
	for i := range phases {
		calls[i], rest = o.call(i, room, rest)
	}
	for g := range p.GroupCount() {
		packed := rest
		for i := range phases {
			packed = packTaps(&calls[i].call, w[g*kg*p.PatchSize():], p.R*p.S, p.PatchSize(), packed)
		}
		for n := range p.N {
			o.frame.Fill(dy[(n*p.K+g*kg)*plane:], image)
			to := dx[(n*p.C+g*o.out)*p.H*p.W:][:o.out*p.H*p.W]
			for i := range phases {
				if c := &calls[i]; c.rows > 0 {
					o.run(c, image, to)
				}
			}
			for a := 0; o.joins && a < p.StrideH; a++ {
				if c := &calls[a*p.StrideW]; c.rows > 0 {
					o.join(c, room, to)
				}
			}
		}
	}
}

// call is the convolution that gives phase i. It takes its tables from scratch.
func (o *gradOut) call(i int, room, scratch []float32) (c gradCall, rest []float32) {
	p := o.p
	h := geometry.NewPhase(i/p.StrideW, p.H, p.OutH(), p.StrideH, p.PadH, p.R, p.DilationH())
	w := geometry.NewPhase(i%p.StrideW, p.W, p.OutW(), p.StrideW, p.PadW, p.S, p.DilationW())
	c = gradCall{call: newCall(h.N*w.N, o.frame, o.out, h.Pixels, o.cols), first: h.Pixel, rows: h.Pixels, line: o.cols}
	switch {
	case h.Pixels > 0 && spread(c.Lanes, &o.frame, o.out, h.Pixels, o.cols) > 0:
		c.spreadRows()
		c.spread, c.line = room[:o.phase], o.frame.Width
	case !o.joins:
		c.row, c.plane = p.StrideH*p.W, p.H*p.W
	}
	if o.joins {
		c.spread = room[(h.Pixel*p.StrideW+w.Pixel)*o.phase:][:o.phase]
	}
	rest = c.reserve(h.N, w.N, scratch)
	top, left := o.frame.Corner()
	for t := range h.N * w.N {
		r, s := t/w.N, t%w.N
		c.setTap(t, (h.FirstTap+r*h.EveryTap)*p.S+w.FirstTap+s*w.EveryTap, top+h.Axis.First+r*h.Axis.Step, left+w.Axis.First+s*w.Axis.Step)
	}
	return c, rest
}

// run computes a phase of one group of an image: to its rows of dx, or to room.
func (o *gradOut) run(c *gradCall, image, dx []float32) {
	p := o.p
	switch {
	case len(c.taps) == 0 && !o.joins: // no tap reaches these rows
		for i := range c.out * c.rows {
			clear(dx[i/c.rows*p.H*p.W+(c.first+i%c.rows*p.StrideH)*p.W:][:p.W])
		}
	case c.spread == nil:
		c.call.run(image, dx[c.first*p.W:])
	default:
		c.call.run(image, c.spread)
		if !o.joins {
			c.gather(dx[c.first*p.W:], c.rows, p.W, p.StrideH*p.W, p.H*p.W)
		}
	}
}

// join writes the rows of dx whose phases of columns lie in room; c computes one of these.
func (o *gradOut) join(c *gradCall, room, dx []float32) {
	p := o.p
	from, to := room[c.first*p.StrideW*o.phase:], dx[c.first*p.W:]
	rows := geometry.PlaneCopy{
		Images: c.out, Rows: c.rows, Src: &from[0], SrcImage: 4 * c.plane, SrcRow: 4 * c.line, Odd: 4 * o.phase,
		Dst: &to[0], DstImage: 4 * p.H * p.W, DstRow: 4 * p.StrideH * p.W,
	}
	if p.StrideW == 2 {
		rows.SetWidth(p.W, 2)
		rows.Join()
		return
	}
	for j := range min(p.StrideW, p.W) {
		rows.Put(from[j*o.phase:], to, j, p.W, p.StrideW)
	}
}
