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
	from, to := s.roomFor(x, s.inRoom), y
	few := s.p.N*s.p.C < s.lanes
	if few {
		to = s.outRoom
	}
	for i := range s.blocks() {
		b := s.blockAt(i)
		for strip := range s.strips {
			for k := range s.frames {
				s.fill(strip, k, from[(b.plane*s.frames+k)*s.inPlane():])
			}
			for k := 0; k < s.results; k += s.together() {
				count := min(s.together(), s.results-k)
				if count > 1 {
					s.sumPair(strip, k, b.plane%s.p.C)
				} else {
					s.sum(strip, k, b.plane%s.p.C)
				}
				for i := range count {
					s.cut(strip, s.out[i*s.pixels*s.lanes:], to[(b.plane*s.results+k+i)*s.outPlane():])
				}
			}
		}
	}
	if few {
		copy(y, to)
	}
}

// rowsOf is how many rows a strip has.
func (s *planes) rowsOf(strip int) int { return min(s.strip, s.row.results-strip*s.strip) }

// fill copies what a strip sees of planes to a frame.
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
	c.setPixels((end - from) * s.column.in)
	vecInterleaveIn(&c)
}

// sum computes an output of each channel.
func (s *planes) sum(strip, k, channel int) {
	if rows := s.rowsOf(strip); rows != s.listed {
		s.setParts(rows)
	}
	vecPixelSums(&pixelSums{
		parts: &s.parts[0], count: len(s.parts), pixels: &s.pixelAt[0], x: &s.frame[0], list: &s.list[0],
		weights: &s.weights[k*s.taps()*s.channels+channel], bias: &s.bias[k*s.channels+channel], y: &s.out[0],
	})
}

// sumPair computes two outputs of each channel, whose results have one phase.
func (s *planes) sumPair(strip, k, channel int) {
	vecPixelPairs(&pixelPairs{
		groups: kernel.CeilDiv(s.rowsOf(strip)*s.column.results, groupPixels), pixels: &s.pixelAt[0], x: &s.frame[0], taps: s.taps(), list: &s.list[0],
		weights: &s.weights[k*s.taps()*s.channels+channel], bias: &s.bias[k*s.channels+channel], y: &s.out[0],
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

// cut copies the results of a strip to planes.
func (s *planes) cut(strip int, out, y []float32) {
	c := pixelCopy{planes: &y[strip*s.strip*s.column.results], plane: 4 * s.results * s.outPlane(), at: &out[0], table: &s.cutAt[0]}
	n := s.rowsOf(strip) * s.column.results
	c.ahead = s.ahead(strip, s.strip*s.column.results, c.plane)
	c.setPixels(n)
	vecInterleaveOut(&c)
}

// ahead is the bytes from a strip to the next one, which has so many pixels: behind the last one that is the first of the planes after these.
func (s *planes) ahead(strip, pixels, plane int) int {
	if strip < s.strips-1 {
		return 4 * pixels
	}
	return plane*s.lanes - 4*strip*pixels
}
