package planes

import (
	"unsafe"

	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/cost"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/geometry"
)

// spreadGrad is the input gradient of planes of some vectors whose dy is one vector, for CPUs that compute sixteen lanes whole: those that strides take to few pixels. A
// lane is a pixel of dx, in the order of memory. Its taps, of which there are as many as the stride leaves of a filter, see pixels of dy, and neighbours have
// other taps, so that what they see is a permutation of dy and their weights one of the filter.
type spreadGrad struct {
	small
	taps, vectors int // taps that a pixel sees dy through, at most, and vectors of a plane of dx
	parts         [spreadVectors]spreadPart
	entries       []spreadTap // of the parts, one behind the other
}

// spreadTap is which pixel of dy the lanes of a vector see through one of their taps, and the weight of that, if the mask has the lane. The layout is known to
// gen/conv/spread.go.
type spreadTap struct {
	order, weights [kernel.Block]int32
	mask           uint32
	_              [15]int32
}

// spreadPart is a vector of a plane: its entries, and the mask of its lanes.
type spreadPart struct{ taps, lanes int }

const (
	spreadTapElems = int(unsafe.Sizeof(spreadTap{})) / 4
	spreadVectors  = 4
	spreadMost     = 24 // taps of all vectors: of more, other kernels take less time
)

// takesSpread reports whether a direction is computed so, by CPUs that can.
func takesSpread(p *geometry.Shape, d geometry.Direction) bool {
	s := spreadOf(p)
	return d == geometry.ToInput && s.out <= kernel.Block && s.in > kernel.Block && p.R*p.S <= 2*kernel.Block && s.vectors <= spreadVectors && s.vectors*s.taps <= spreadMost
}

func spreadOf(p *geometry.Shape) spreadGrad {
	s := spreadGrad{small: small{p: *p, in: p.H * p.W, out: p.OutH() * p.OutW(), images: smallImages}}
	s.taps = tapsOfPixel(p.R, p.StrideH, p.DilationH()) * tapsOfPixel(p.S, p.StrideW, p.DilationW())
	s.vectors = kernel.CeilDiv(s.in, kernel.Block)
	return s
}

// tapsOfPixel is how many of a row of taps a pixel sees dy through, at most.
func tapsOfPixel(taps, stride, dilation int) int {
	every := 1 // from a tap to the next one that meets the same pixels
	for every*dilation%stride != 0 {
		every++
	}
	return kernel.CeilDiv(taps, every)
}

// spreadScratch is the elements that it needs.
func spreadScratch(p *geometry.Shape) int {
	s := spreadOf(p)
	return s.vectors*s.taps*spreadTapElems + 2*kernel.Block
}

// spreadTerms counts what it does. See package cost.
func spreadTerms(p *geometry.Shape) (t cost.Terms) {
	s := spreadOf(p)
	t[wideTiles] = float64(kernel.CeilDiv(p.N, smallImages) * p.C)
	t[wideProducts] = 2 * float64(p.N*p.C*s.vectors*s.taps)
	return t
}

// list lists the taps of each vector in scratch, in the order of the weights.
func (s *spreadGrad) list(scratch []float32) {
	room := geometry.Aligned(scratch)[:s.vectors*s.taps*spreadTapElems]
	clear(room)
	s.entries = unsafe.Slice((*spreadTap)(unsafe.Pointer(&room[0])), s.vectors*s.taps)
	p := &s.p
	var listed [spreadVectors * kernel.Block]int
	for tap := range p.R * p.S {
		eachSeen(p, tap, func(from, row, column int) {
			pixel := row*p.W + column
			vector, lane := pixel/kernel.Block, pixel%kernel.Block
			entry := &s.entries[vector*s.taps+listed[pixel]]
			entry.order[lane], entry.weights[lane] = int32(from), int32(tap)
			entry.mask |= 1 << lane
			listed[pixel]++
			s.parts[vector].taps = max(s.parts[vector].taps, listed[pixel])
		})
	}
	s.close()
}

// close moves the entries of the vectors together: some have fewer taps.
func (s *spreadGrad) close() {
	n := 0
	for v := range s.vectors {
		part := &s.parts[v]
		part.taps = max(1, part.taps) // of which no lane may see any
		part.lanes = int(firstLanes(s.in - v*kernel.Block))
		copy(s.entries[n:], s.entries[v*s.taps:][:part.taps])
		n += part.taps
	}
}

// spreadGradInput is GradInput.
func spreadGradInput(p *geometry.Shape, dy, w, dx, scratch []float32) {
	s := spreadOf(p)
	s.list(scratch)
	s.overImages(func(n, images int) {
		t := smallPlanes{
			x: &dx[n*p.C*s.in], y: &dy[n*p.C*s.out], xImage: 4 * p.C * s.in, yImage: 4 * p.C * s.out, planes: p.C, xPlane: 4 * s.in, yPlane: 4 * s.out,
			table: unsafe.Pointer(&s.entries[0]), weights: &w[0], weightsPlane: 4 * p.R * p.S, maskY: firstLanes(s.out), vectors: s.vectors, parts: s.parts,
		}
		t.rowMasks[0], t.rowMasks[1] = firstLanes(p.R*p.S), firstLanes(p.R*p.S-kernel.Block)
		s.runSpread(images, &t)
	})
}

// firstLanes is the mask of the first n lanes, of which there may be none or more than a vector has.
func firstLanes(n int) uint16 { return uint16(1<<max(0, min(n, kernel.Block)) - 1) }

func (s *spreadGrad) runSpread(images int, t *smallPlanes) {
	switch images {
	case 1:
		vecSmallSpread1(t)
	case 2:
		vecSmallSpread2(t)
	case 4:
		vecSmallSpread4(t)
	default:
		vecSmallSpread8(t)
	}
}
