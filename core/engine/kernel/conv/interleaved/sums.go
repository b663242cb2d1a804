package interleaved

import (
	"unsafe"

	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/geometry"
)

// Forward computes y = conv(x, w) + bias; bias may be nil.
func Forward(p *geometry.Shape, x, w, bias, y, scratch []float32) {
	s := newPlanes(p, geometry.ToOutput)
	s.take(scratch)
	s.compute(x, w, bias, y)
}

// GradInput overwrites dx with the gradient of the input.
func GradInput(p *geometry.Shape, dy, w, dx, scratch []float32) {
	s := newPlanes(p, geometry.ToInput)
	s.take(scratch)
	s.compute(dy, w, nil, dx)
}

// compute is both.
func (s *planes) compute(x, w, bias, y []float32) {
	s.setTables()
	s.setWeights(s.all(), w, s.weights)
	if bias == nil {
		clear(s.bias)
	} else {
		s.setWeights(s.results, bias, s.bias)
	}
	clear(s.frame)
	from, to := s.roomFor(x, s.inRoom, s.frames*s.inPlane()), y
	few := s.p.N*s.p.C < s.lanes
	if few {
		to = s.outRoom
	}
	for i := range s.blocks() {
		b := s.blockAt(i)
		for strip := range s.strips {
			s.fillAll(strip, from[b.plane*s.frames*s.inPlane():])
			for k := 0; k < s.results; k += s.atOnce {
				count := min(s.atOnce, s.results-k)
				s.sums(strip, k, count, b.plane%s.p.C)
				s.copyResults(strip, count, to[(b.plane*s.results+k)*s.outPlane():], true)
			}
		}
	}
	if few { // y may go on with images of others
		copy(y[:s.p.N*s.p.C*s.results*s.outPlane()], to)
	}
}

// rowsOf is how many rows a strip has.
func (s *planes) rowsOf(strip int) int { return min(s.strip, s.row.results-strip*s.strip) }

// fillAll copies what a strip sees of all planes of a channel to their frames.
func (s *planes) fillAll(strip int, x []float32) {
	frames := s.frames
	if s.allFrames() {
		frames = 1
	}
	for k := range frames {
		s.fill(strip, k, x[k*s.inPlane():])
	}
}

// fill copies what a strip sees of planes to a frame, or to all of them.
func (s *planes) fill(strip, k int, x []float32) {
	frame, step := s.frame[k*s.rows*s.width*s.lanes:][:s.rows*s.width*s.lanes], s.strip/s.row.stride*s.row.every
	line, row := s.width*s.lanes, 0 // the first that the strip before has not seen
	if strip > 0 && step < s.rows {
		row = s.rows - step
		copy(frame, frame[step*line:])
	}
	first := strip*step - s.row.lead // of x, in the frame's first row
	from, end := max(row, -first), min(s.rows, s.row.in-first)
	if s.strips > 1 {
		clear(frame[row*line : max(row, min(from, s.rows))*line])
		clear(frame[max(row, end)*line:])
	}
	if from >= end {
		return
	}
	c := pixelCopy{
		planes: &x[(first+from)*s.column.in], plane: 4 * s.frames * s.inPlane(), at: &frame[from*line], table: &s.fillAt[0],
	}
	c.ahead = s.ahead(strip, step*s.column.in, c.plane)
	if s.lanes*s.frames*s.inPlane() <= nearElems {
		c.near = 1
	}
	n := (end - from) * s.column.in
	if s.allFrames() {
		n *= s.frames
	}
	c.setPixels(n)
	vecInterleaveIn(&c)
}

// sums computes some outputs of each channel, from k on.
func (s *planes) sums(strip, k, count, channel int) {
	for i := 0; i < count; i += s.together() {
		y := &s.out[i*s.pixels*s.lanes]
		if min(s.together(), count-i) > 1 {
			s.sumPair(strip, k+i, channel, y)
		} else {
			s.sum(strip, k+i, channel, y)
		}
	}
}

// sum computes an output of each channel.
func (s *planes) sum(strip, k, channel int, y *float32) {
	if rows := s.rowsOf(strip); rows != s.listed {
		s.setParts(rows)
	}
	vecPixelSums(&pixelSums{
		parts: &s.parts[0], count: len(s.parts), pixels: &s.pixelAt[0], x: &s.frame[0], list: &s.list[0],
		weights: &s.weights[k*s.taps()*s.channels+channel], bias: &s.bias[k*s.channels+channel], y: y,
	})
}

// sumPair computes two outputs of each channel, whose results have one phase.
func (s *planes) sumPair(strip, k, channel int, y *float32) {
	vecPixelPairs(&pixelPairs{
		groups: kernel.CeilDiv(s.rowsOf(strip)*s.column.results, groupPixels), pixels: &s.pixelAt[0], x: &s.frame[0], taps: s.taps(), list: &s.list[0],
		weights: &s.weights[k*s.taps()*s.channels+channel], bias: &s.bias[k*s.channels+channel], y: y,
		weightNext: 4 * s.taps() * s.channels, biasNext: 4 * s.channels, yNext: 4 * s.pixels * s.lanes,
	})
}

// setParts lists the parts of a strip of so many rows.
func (s *planes) setParts(rows int) {
	s.listed, s.parts = rows, s.parts[:0]
	for i := range s.row.stride * s.column.stride {
		f := &s.phases[i]
		n := (rows - f.first + s.row.stride - 1) / s.row.stride * f.columns
		if n <= 0 {
			continue
		}
		of := part{pixelCount: n, pixels: 4 * f.pixel, y: s.vector() * f.pixel}
		for left := max(1, kernel.CeilDiv(f.taps, mostTaps)); left > 0; left-- {
			of.taps, of.list = kernel.CeilDiv(f.taps-of.add, left), int(unsafe.Sizeof(tap{}))*(f.tap+of.add)
			s.parts = append(s.parts, of)
			of.add += of.taps
		}
	}
}

// copyResults copies the rows that a strip has of count results of each channel from their vectors to planes, or from these if not out. Where a strip
// is all rows, planes lie side by side.
func (s *planes) copyResults(strip, count int, planes []float32, out bool) {
	calls, pixels := count, s.rowsOf(strip)*s.column.results
	if s.strips == 1 {
		calls, pixels = 1, count*pixels
	}
	first := strip * s.strip * s.column.results
	c := pixelCopy{plane: 4 * s.results * s.outPlane(), table: &s.cutAt[0]}
	c.ahead = s.ahead(strip, s.strip*s.column.results, c.plane)
	c.setPixels(pixels)
	for i := range calls {
		c.planes, c.at = &planes[i*s.outPlane()+first], &s.out[i*s.pixels*s.lanes]
		switch {
		case !out:
			vecInterleaveIn(&c)
		case s.collide():
			s.copyRuns(&c, pixels, planes[i*s.outPlane()+first:])
		default:
			vecInterleaveOut(&c)
		}
	}
}

// copyRuns is copyResults of so many pixels of each plane by way of room.
func (s *planes) copyRuns(c *pixelCopy, pixels int, planes []float32) {
	run, plane := s.runElems(), c.plane/4
	c.planes, c.plane, c.ahead, c.near = &s.runs[0], 4*run, 0, 1
	vecInterleaveOut(c)
	c.plane = 4 * plane
	for lane := range s.lanes {
		copy(planes[lane*plane:][:pixels], s.runs[lane*run:])
	}
}

// ahead is the bytes from a strip to the next one, which has so many pixels: behind the last one that is the first of the planes after these.
func (s *planes) ahead(strip, pixels, plane int) int {
	if strip < s.strips-1 {
		return 4 * pixels
	}
	return plane*s.lanes - 4*strip*pixels
}
