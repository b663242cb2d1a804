package interleaved

import (
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/geometry"
)

// GradWeight writes or adds the gradient of the weights to dw.
func GradWeight(p *geometry.Shape, x, dy, dw, scratch []float32, accumulate bool) {
	s := newPlanes(p, geometry.ToWeight)
	s.take(scratch)
	s.setTables()
	clear(s.frame)
	clear(s.weights)
	x, dy = s.roomFor(x, s.inRoom, s.inPlane()), s.roomFor(dy, s.outRoom, s.results*s.outPlane())
	for i := range s.blocks() {
		s.blockDots(s.blockAt(i), x, dy)
	}
	s.fold(dw, accumulate)
}

// blockDots adds the sums of a block of planes.
func (s *planes) blockDots(b block, x, dy []float32) {
	channel := b.plane % s.p.C
	sums, pitch := s.weights[channel:], s.channels
	part := b.from > 0 || b.end < s.lanes
	if part {
		sums, pitch = s.one, s.lanes
		clear(sums)
	}
	for strip := range s.strips {
		s.fillAll(strip, x[b.plane*s.inPlane():])
		for k := 0; k < s.results; k += s.atOnce {
			count := min(s.atOnce, s.results-k)
			s.copyResults(strip, count, dy[(b.plane*s.results+k)*s.outPlane():], false)
			for i := 0; i < count; i += s.together() {
				s.dots(s.rowsOf(strip)*s.column.results, min(s.together(), count-i), &s.out[i*s.pixels*s.lanes], sums[(k+i)*s.taps()*pitch:], pitch)
			}
		}
	}
	if !part {
		return
	}
	for i := range s.all() {
		to, from := s.weights[i*s.channels+channel:], s.one[i*s.lanes:][:b.end]
		for lane := b.from; lane < b.end; lane++ {
			to[lane] += from[lane]
		}
	}
}

// dots adds the products of n pixels of x and dy to the sums of the weights of some outputs.
func (s *planes) dots(n, outputs int, dy *float32, sums []float32, pitch int) {
	all := s.taps()
	parts := dotsCalls(all, outputs)
	t := pixelDots{pixels: n, table: &s.pixelAt[0], dy: dy, pitch: 4 * pitch, dyNext: 4 * s.pixels * s.lanes, sumsNext: 4 * all * pitch}
	for part, at := 0, 0; part < parts; part++ {
		count := kernel.CeilDiv(all-at, parts-part)
		for i := range count {
			t.x[i] = &s.frame[s.list[at+i].x/4]
		}
		t.sums = &sums[at*pitch]
		if outputs == 1 {
			runPixelDots(s.lanes, count, &t)
		} else {
			runPixelDotsPair(s.lanes, count, &t)
		}
		at += count
	}
}

// dotsCalls is how many calls sum the gradients of so many weights, of some outputs at once.
func dotsCalls(taps, outputs int) int {
	if outputs > 1 {
		return kernel.CeilDiv(taps, mostPairs)
	}
	return kernel.CeilDiv(taps, mostTaps)
}

// fold adds up the sums of each channel's weights, which lie as many as there are channels apart.
func (s *planes) fold(dw []float32, accumulate bool) {
	n := s.all()
	for c := range s.p.C {
		to := dw[c*n:][:n]
		if !accumulate {
			clear(to)
		}
		for i := range to {
			row := s.weights[i*s.channels:][:s.p.C+s.lanes-1]
			for j := c; j < len(row); j += s.p.C {
				to[i] += row[j]
			}
		}
	}
}
