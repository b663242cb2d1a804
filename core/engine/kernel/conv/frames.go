package conv

import (
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/gemm"
)

// What the columns of a block are copied from: the rows of each image that the
// block looks at, in a frame of zeros and split by the phase of the stride, so that
// the inputs of neighbouring outputs lie side by side.

// runLength is how many elements a copy moves at a time. It may write too much,
// which is overwritten by the next copy, and read as much: buffers end with such a slack.
const runLength = 16

// band is a run of rows of one image; before it come so many rows of the block.
type band struct{ image, row, rows, before int }

// bandAt is the part of the block [first, end) that begins at row and belongs
// to one image of perImage rows.
func bandAt(first, row, end, perImage int) band {
	s := band{image: row / perImage, row: row % perImage, before: row - first}
	s.rows = min(perImage-s.row, end-row)
	return s
}

// im2col writes one row per (channel, r, s) and one column per pixel of the
// rows [first, end), for count channels from ch on.
func im2col[T kernel.Float](c *im2colCall, x []T, ch, count, first, end int, frames, columns []T) {
	n, size := (end-first)*c.hori.out, c.vert.in*c.hori.in
	for i := range count {
		rest := frames
		for row := first; row < end; {
			s := bandAt(first, row, end, c.vert.out)
			row += s.rows
			fillFrame(c, x[s.image*c.between+(ch+i)*size:][:size], s, rest)
			rest = rest[c.vert.span(s.rows)*c.line:]
		}
		for r := range c.vert.taps {
			for t := range c.hori.taps {
				at := c.hori.tap(t)
				copyTap(c, first, end, frames[c.vert.tap(r)*c.line+at%c.hori.stride*c.width+at/c.hori.stride:], columns)
				columns = columns[n:]
			}
		}
	}
}

// fillFrame copies the rows of a plane that a band looks at, with zeros around
// them. A row has one part for each phase of the stride.
func fillFrame[T kernel.Float](c *im2colCall, plane []T, s band, frames []T) {
	line, left := c.line, -c.hori.least()
	top := s.row*c.vert.stride + c.vert.least()
	frame := frames[:c.vert.span(s.rows)*line]
	clear(frame)
	if kernel.Is32[T]() && kernel.Current() == kernel.AVX512 && c.hori.stride == 1 && left >= 0 && left+c.hori.in <= line && (c.hori.in <= kernel.Block || c.hori.in%kernel.Block == 0) {
		skip := max(0, -top)
		if n := min(c.vert.span(s.rows), c.vert.in-top) - skip; n > 0 {
			copyPlane(n, kernel.As32(plane[(top+skip)*c.hori.in:]), c.hori.in, kernel.As32(frames[skip*line+left:]), line)
		}
		return
	}
	for i := max(0, -top); i < c.vert.span(s.rows) && top+i < c.vert.in; i++ {
		src, dst := plane[(top+i)*c.hori.in:][:c.hori.in], frame[i*line:][:line]
		for phase := range c.hori.stride {
			splitPhase(src, dst[phase*c.width:][:c.width], phase-left, c.hori.stride)
		}
	}
}

// copyPlane copies rows of n elements, at most 16 or whole vectors, to places
// line apart. It may write zeros behind a row.
func copyPlane(rows int, plane []float32, n int, frame []float32, line int) {
	for col := 0; col < n; col += kernel.Block {
		gemm.PackAlong(rows, &plane[col], 4*n, kernel.FirstLanes(min(kernel.Block, n-col)), &frame[col], 4*line)
	}
}

// splitPhase copies src[at], src[at+stride] and so on, as far as they exist.
func splitPhase[T kernel.Float](src, dst []T, at, stride int) {
	if at < 0 {
		skip := kernel.CeilDiv(-at, stride)
		dst, at = dst[min(skip, len(dst)):], at+skip*stride
	}
	switch {
	case at >= len(src), len(dst) == 0:
	case stride == 1:
		copy(dst, src[at:])
	default:
		dst = dst[:min(len(dst), kernel.CeilDiv(len(src)-at, stride))]
		if stride == 2 && kernel.Is32[T]() && kernel.Current() == kernel.AVX512 {
			vecPickPairs(len(dst), &kernel.As32(src[at:])[0], &kernel.As32(dst)[0])
			return
		}
		for j := range dst {
			dst[j] = src[at]
			at += stride
		}
	}
}

// copyTap copies what a tap sees of the frames of a block to its row of the columns.
func copyTap[T kernel.Float](c *im2colCall, first, end int, frames, columns []T) {
	step := c.vert.stride * c.line
	overlap := c.vert.reach() - c.vert.stride // rows of a band's frame beyond stride per row
	for row := first; row < end; {
		s := bandAt(first, row, end, c.vert.out)
		row += s.rows
		copyRuns(s.rows, c.hori.out, frames, step, columns[s.before*c.hori.out:])
		if row < end {
			frames = frames[s.rows*step+overlap*c.line:]
		}
	}
}

// copyRuns copies rows of n elements, which lie step apart in src, to one piece.
func copyRuns[T kernel.Float](rows, n int, src []T, step int, dst []T) {
	if kernel.Is32[T]() && kernel.Current() == kernel.AVX512 {
		vecCopyRuns(rows, kernel.CeilDiv(n, kernel.Block), &kernel.As32(src)[0], 4*step, &kernel.As32(dst)[0], 4*n)
		return
	}
	for i := range rows {
		from, to := src[i*step:], dst[i*n:]
		for j := 0; j < n; j += runLength {
			*(*[runLength]T)(to[j:]) = *(*[runLength]T)(from[j:])
		}
	}
}
