package interleaved

import (
	"unsafe"

	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/geometry"
)

// maxPhases bounds the phases of input gradients: the product of the strides.
const maxPhases = 64

// stripElems is the elements of frames and results that are worked on at once: more would not stay in the L1 cache.
const stripElems = 1 << 13

// nearElems is the elements of a block of planes of which the next is prefetched to the L1 cache: more would push out frames and results.
const nearElems = 1 << 11

// Takes reports whether a convolution is depthwise, with one output for each channel or several.
func Takes(p *geometry.Shape) bool {
	return p.GroupCount() > 1 && p.C == p.GroupCount() && p.StrideH*p.StrideW <= maxPhases
}

// axis is how results meet what they are computed from in one dimension. Results whose positions are equal modulo the stride are
// a phase; every other one of a phase looks that many pixels of the frame further.
type axis struct {
	results, in   int // of a plane
	stride, every int
	lead          int // zeros before the first pixel of a frame
	reach         int // pixels of a frame that a result of each phase looks over
}

// forwardAxis is that of y over x, and gradAxis that of dx over dy.
func forwardAxis(in, out, stride, pad, taps, dil int) axis {
	return axis{results: out, in: in, stride: 1, every: stride, lead: pad, reach: (taps-1)*dil + 1}
}

func gradAxis(in, out, stride, pad, taps, dil int) axis {
	lead, elems := geometry.Lead(in, out, stride, pad, taps, dil)
	return axis{results: in, in: out, stride: stride, every: 1, lead: lead, reach: max(1, elems-kernel.CeilDiv(in, stride)+1)}
}

// size is the pixels of a frame for n results.
func (a *axis) size(n int) int { return (kernel.CeilDiv(n, a.stride)-1)*a.every + a.reach }

// planes is a convolution of planes that are interleaved, as many as there are lanes: those with consecutive numbers, whatever images they
// are of. Some rows of the results, a strip, are computed at a time.
type planes struct {
	p               geometry.Shape
	direction       geometry.Direction
	lanes           int
	row, column     axis
	frames, results int // planes that are read and written for each channel: one is 1, the other K/C
	strip, strips   int // rows of one, and how many there are
	atOnce          int // results of each channel whose vectors there is room for
	rows, width     int // of a frame
	channels        int // from a weight of the table to the next: each begins with those of every channel again
	phases          [maxPhases]phase
	pixels          int // of all phases
	listed          int // rows of the strip that the parts are for

	// Room in scratch.
	fillAt, cutAt, pixelAt []int32 // bytes: where a pixel of a plane lies in a frame, where a result does, and what it sees first
	list                   []tap
	parts                  []part
	weights, bias          []float32 // [weights or outputs of a channel][channels]
	frame, out             []float32 // [pixels][lanes], out for each of the outputs that are copied at once
	inRoom, outRoom        []float32 // planes, where a tensor has fewer than there are lanes
	one                    []float32 // sums of a block of planes that counts in part
	runs                   []float32 // results of planes that collide
}

// phase is the results of one remainder of rows and columns modulo the strides.
type phase struct {
	first, columns int // the first row, and pixels of each
	pixel          int // the number of its first pixel in pixelAt, which out has, too
	tap, taps      int // in list
}

// newPlanes is without its room.
func newPlanes(p *geometry.Shape, d geometry.Direction) (s planes) {
	s.p, s.direction, s.lanes = *p, d, kernel.Lanes()
	s.frames, s.results = 1, p.K/p.C
	if d == geometry.ToInput {
		s.frames, s.results = s.results, 1
		s.row = gradAxis(p.H, p.OutH(), p.StrideH, p.PadH, p.R, p.DilationH())
		s.column = gradAxis(p.W, p.OutW(), p.StrideW, p.PadW, p.S, p.DilationW())
	} else {
		s.row = forwardAxis(p.H, p.OutH(), p.StrideH, p.PadH, p.R, p.DilationH())
		s.column = forwardAxis(p.W, p.OutW(), p.StrideW, p.PadW, p.S, p.DilationW())
	}
	s.width = max(s.column.size(s.column.results), s.column.lead+s.column.in)
	s.setStrip()
	const block = kernel.Block
	s.channels = (kernel.CeilDiv(p.C+s.lanes-1, block) | 1) * block // odd lines: weights do not compete for the same places of a cache
	return s
}

// setStrip chooses how many rows are computed at a time.
func (s *planes) setStrip() {
	all, step := s.row.results, s.row.stride
	fits := func(rows int) bool {
		return s.lanes*(s.frames*s.row.size(rows)*s.width+s.together()*rows*s.column.results) <= stripElems
	}
	s.strip = kernel.CeilDiv(all, step) * step
	for s.strip > step && !fits(s.strip) {
		s.strip -= step
	}
	s.strips = kernel.CeilDiv(all, s.strip)
	s.strip = kernel.CeilDiv(kernel.CeilDiv(all, s.strips), step) * step
	s.rows = s.row.size(s.strip)
	phases := s.row.stride * s.column.stride
	s.pixels = s.strip/step*kernel.CeilDiv(s.column.results, s.column.stride)*phases + groupPixels
	if s.atOnce = s.together(); s.strips == 1 {
		room := (stripElems/s.lanes - s.frames*s.rows*s.width) / s.pixels
		s.atOnce = min(s.results, max(1, room/s.atOnce)*s.atOnce)
	}
}

// allFrames reports whether frames have all rows of planes, which lie side by side: one copy is for all frames of a channel.
func (s *planes) allFrames() bool { return s.strips == 1 && s.row.lead+s.row.in <= s.rows }

// together is how many outputs of a channel are computed at once: a pixel is loaded for both where many taps see it, or where vectors are wide and no group of pixels
// is half empty.
func (s *planes) together() int {
	many := s.taps() > mostTaps || s.lanes == kernel.Block && s.outPlane() >= groupPixels
	if s.direction == geometry.ToWeight || s.direction == geometry.ToOutput && many {
		return min(s.results, 2)
	}
	return 1
}

// mostParts bounds the parts of a strip.
func (s *planes) mostParts() int { return s.row.stride*s.column.stride + s.all()/mostTaps }

// taps is how many weights a filter has, and all those of a channel.
func (s *planes) taps() int { return s.p.R * s.p.S }
func (s *planes) all() int  { return s.taps() * s.p.K / s.p.C }

// inPlane and outPlane are the pixels of a plane that is read, and of one of the results.
func (s *planes) inPlane() int  { return s.row.in * s.column.in }
func (s *planes) outPlane() int { return s.row.results * s.column.results }

// fewer reports whether there may be fewer planes of a kind than lanes: an image has too few.
func (s *planes) fewer() bool { return s.p.C < s.lanes }

// Scratch is the number of scratch elements that a direction needs.
func Scratch(p *geometry.Shape, d geometry.Direction) int {
	s := newPlanes(p, d)
	n := 2 * kernel.Block
	for _, elems := range s.rooms() {
		n += kernel.CeilDiv(elems, kernel.Block) * kernel.Block
	}
	return n
}

// rooms are the elements of each room, in the order of take.
func (s *planes) rooms() [12]int {
	n := [...]int{
		s.frames*s.rows*s.column.in + s.lanes, s.atOnce*s.strip*s.column.results + s.lanes, s.pixels, 2 * s.all(),
		s.all() * s.channels, s.results * s.channels, s.frames * s.rows * s.width * s.lanes, s.atOnce * s.pixels * s.lanes, 0, 0,
		s.mostParts() * partElems, 0,
	}
	if s.collide() {
		n[11] = s.lanes * s.runElems()
	}
	if s.fewer() {
		n[8], n[9] = s.lanes*s.frames*s.inPlane(), s.lanes*s.results*s.outPlane()
	}
	if s.direction == geometry.ToWeight {
		n[5] = s.all() * s.lanes
	}
	return n
}

// take takes the rooms from scratch.
func (s *planes) take(scratch []float32) {
	const line = 4 * kernel.Block
	scratch = scratch[int(-uintptr(unsafe.Pointer(&scratch[0]))%line)/4:]
	rooms := s.rooms()
	next := func(i int) (v []float32) {
		n := rooms[i]
		v, scratch = scratch[:n], scratch[kernel.CeilDiv(n, kernel.Block)*kernel.Block:]
		return v
	}
	numbers := func(i int) []int32 {
		v := next(i)
		return unsafe.Slice((*int32)(unsafe.Pointer(&v[0])), len(v))
	}
	s.fillAt, s.cutAt, s.pixelAt = numbers(0), numbers(1), numbers(2)
	list := next(3)
	s.list = unsafe.Slice((*tap)(unsafe.Pointer(&list[0])), len(list)/2)
	s.weights, s.bias, s.frame, s.out, s.inRoom, s.outRoom = next(4), next(5), next(6), next(7), next(8), next(9)
	s.runs = next(11)
	parts := next(10)
	s.parts = unsafe.Slice((*part)(unsafe.Pointer(&parts[0])), s.mostParts())
	if s.direction == geometry.ToWeight {
		s.one = s.bias
	}
}

// collide reports whether results go by way of room where planes lie in different sets of the L1 cache.
func (s *planes) collide() bool {
	return s.direction != geometry.ToWeight && geometry.Collide(s.lanes, s.results*s.outPlane())
}

// runElems is from a plane to the next in that room.
func (s *planes) runElems() int { return s.atOnce*s.strip*s.column.results + kernel.Block }

// vector is the bytes of one.
func (s *planes) vector() int { return 4 * s.lanes }

// setTables fills the tables of pixels and taps.
func (s *planes) setTables() {
	plane, count := s.rows*s.column.in, 1
	if s.allFrames() {
		plane, count = s.inPlane(), s.frames
	}
	for i := range s.fillAt {
		pixel := min(i, count*plane-1) // those behind the last one are written before it is
		row := pixel/plane*s.rows + pixel%plane/s.column.in
		s.fillAt[i] = int32(s.vector() * (row*s.width + s.column.lead + pixel%s.column.in))
	}
	clear(s.cutAt)
	taps, pixels := 0, 0
	for a := range s.row.stride {
		for b := range s.column.stride {
			f := &s.phases[a*s.column.stride+b]
			f.pixel, f.tap = pixels, taps
			first := s.setTaps(f, a, b)
			pixels += s.setPixels(f, first)
			taps += f.taps
		}
	}
	for i := s.outPlane(); i < s.atOnce*s.outPlane() && s.strips == 1; i++ {
		s.cutAt[i] = s.cutAt[i-s.outPlane()] + int32(s.vector()*s.pixels)
	}
}

// setPixels lists the pixels of a phase, whose first column is given.
func (s *planes) setPixels(f *phase, first int) (n int) {
	f.columns = max(0, kernel.CeilDiv(s.column.results-first, s.column.stride))
	for i := range s.strip / s.row.stride {
		for j := range f.columns {
			place := f.pixel + n
			s.pixelAt[place] = int32(s.vector() * (i*s.row.every*s.width + j*s.column.every))
			s.cutAt[(f.first+i*s.row.stride)*s.column.results+first+j*s.column.stride] = int32(s.vector() * place)
			n++
		}
	}
	if s.together() > 1 {
		for i := n; i%groupPixels > 0; i++ {
			s.pixelAt[f.pixel+i] = s.pixelAt[f.pixel+n-1]
		}
	}
	return n
}

// setTaps lists the taps of a phase, and returns its first column.
func (s *planes) setTaps(f *phase, a, b int) (first int) {
	p := &s.p
	h := geometry.Phase{N: p.R, EveryTap: 1, Axis: geometry.Axis{Step: p.DilationH()}}
	v := geometry.Phase{N: p.S, EveryTap: 1, Axis: geometry.Axis{Step: p.DilationW()}}
	if s.direction == geometry.ToInput {
		h = geometry.NewPhase(a, p.H, p.OutH(), p.StrideH, p.PadH, p.R, p.DilationH())
		v = geometry.NewPhase(b, p.W, p.OutW(), p.StrideW, p.PadW, p.S, p.DilationW())
		h.Axis.First += s.row.lead
		v.Axis.First += s.column.lead
	}
	f.first, f.taps = h.Pixel, s.frames*h.N*v.N
	for i := range f.taps {
		k, r, t := i/(h.N*v.N), i/v.N%h.N, i%v.N
		at := (k*s.rows+h.Axis.First+r*h.Axis.Step)*s.width + v.Axis.First + t*v.Axis.Step
		weight := (k*p.R+h.FirstTap+r*h.EveryTap)*p.S + v.FirstTap + t*v.EveryTap
		s.list[f.tap+i] = tap{int32(s.vector() * at), int32(4 * s.channels * weight)}
	}
	return v.Pixel
}

// setWeights transposes weights, or biases, of n for each channel to rows of all channels.
func (s *planes) setWeights(n int, w, to []float32) {
	for c := range s.p.C {
		for i, v := range w[c*n:][:n] {
			to[i*s.channels+c] = v
		}
	}
	for i := range n {
		row := to[i*s.channels:][:s.channels]
		for c := s.p.C; c < s.p.C+s.lanes-1; c++ {
			row[c] = row[c-s.p.C]
		}
	}
}

// block is as many planes as there are lanes, from one on; lanes before from, and from end on, are of another block, or of none.
type block struct{ plane, from, end int }

// blockAt is the block with that number: the last one overlaps the one before it.
func (s *planes) blockAt(i int) (b block) {
	all := s.p.N * s.p.C
	b.plane = max(0, min(i*s.lanes, all-s.lanes))
	b.from, b.end = i*s.lanes-b.plane, min(all-b.plane, s.lanes)
	return b
}

func (s *planes) blocks() int { return kernel.CeilDiv(s.p.N*s.p.C, s.lanes) }

// roomFor is x, or a copy with planes for all lanes where it has fewer. Channels have so many elements.
func (s *planes) roomFor(x, room []float32, channel int) []float32 {
	n := s.p.N * s.p.C
	if n >= s.lanes {
		return x
	}
	clear(room[copy(room, x[:n*channel]):])
	return room
}
