package im2col

import (
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/geometry"
)

// What the columns of a block are copied from: the rows of each image that the
// block looks at, in a frame of zeros and split by the phase of the stride, so that
// the inputs of neighbouring outputs lie side by side.

// writeColumns writes one row per (channel, r, s) and one column per pixel of the
// rows [first, end), for count channels from ch on.
func writeColumns[T kernel.Float](c *call, x []T, ch, count, first, end int, frames, columns []T) {
	n, size := (end-first)*c.hori.Out, c.vert.In*c.hori.In
	for i := range count {
		rest := frames
		for row := first; row < end; {
			s := geometry.BandAt(first, row, end, c.vert.Out)
			row += s.Rows
			fillFrame(c, x[s.Image*c.between+(ch+i)*size:][:size], s, rest)
			rest = rest[c.vert.Span(s.Rows)*c.line:]
		}
		for r := range c.vert.Taps {
			for t := range c.hori.Taps {
				at := c.hori.Tap(t)
				copyTap(c, first, end, frames[c.vert.Tap(r)*c.line+at%c.hori.Stride*c.width+at/c.hori.Stride:], columns)
				columns = columns[n:]
			}
		}
	}
}

// fillFrame copies the rows of a plane that a band looks at, with zeros around
// them. A row has one part for each phase of the stride.
func fillFrame[T kernel.Float](c *call, plane []T, s geometry.Band, frames []T) {
	line, left := c.line, -c.hori.Least()
	top := s.Row*c.vert.Stride + c.vert.Least()
	frame := frames[:c.vert.Span(s.Rows)*line]
	clear(frame)
	if kernel.Is32[T]() && kernel.Current() == kernel.AVX512 && c.hori.Stride == 1 && left >= 0 && left+c.hori.In <= line && (c.hori.In <= kernel.Block || c.hori.In%kernel.Block == 0) {
		skip := max(0, -top)
		if n := min(c.vert.Span(s.Rows), c.vert.In-top) - skip; n > 0 {
			geometry.CopyPlane(n, kernel.As32(plane[(top+skip)*c.hori.In:]), c.hori.In, kernel.As32(frames[skip*line+left:]), line)
		}
		return
	}
	for i := max(0, -top); i < c.vert.Span(s.Rows) && top+i < c.vert.In; i++ {
		src, dst := plane[(top+i)*c.hori.In:][:c.hori.In], frame[i*line:][:line]
		for phase := range c.hori.Stride {
			geometry.SplitPhase(src, dst[phase*c.width:][:c.width], phase-left, c.hori.Stride)
		}
	}
}

// copyTap copies what a tap sees of the frames of a block to its row of the columns.
func copyTap[T kernel.Float](c *call, first, end int, frames, columns []T) {
	step := c.vert.Stride * c.line
	overlap := c.vert.Reach() - c.vert.Stride // rows of a band's frame beyond stride per row
	for row := first; row < end; {
		s := geometry.BandAt(first, row, end, c.vert.Out)
		row += s.Rows
		geometry.CopyRuns(s.Rows, c.hori.Out, frames, step, columns[s.Before*c.hori.Out:])
		if row < end {
			frames = frames[s.Rows*step+overlap*c.line:]
		}
	}
}
