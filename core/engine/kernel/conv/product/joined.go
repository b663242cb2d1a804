package product

import (
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/cost"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/geometry"
	"github.com/trainctl/trainctl/core/engine/kernel/gemm"
)

// Planes of few pixels leave lanes of their last vector idle: 25 pixels take two vectors of 16, or four of 8, and use
// 78 % of the lanes. Where the idle ones cost more than copies, the planes of several images lie side by side in
// one matrix, and so do their results, which are copied to where they belong.

// joined is images side by side: rows of one matrix, line elements apart.
type joined struct{ images, pixels, line int }

// join makes so many images side by side one product, and a batch where there are several parts, whose sums lie side by side until the last.
func (m *patches) join(images int) {
	if m.together = m.side(images); m.inParts() {
		m.batch = images
		m.setLine()
	}
}

// alone is images as they lie.
func (m *patches) alone() joined { return joined{images: 1, pixels: m.pixels} }

// side is so many images side by side. Vectors may be read and written behind the last pixel of a row.
func (m *patches) side(images int) joined {
	return joined{images: images, pixels: m.pixels, line: kernel.CeilDiv(images*m.pixels, kernel.Block)*kernel.Block + kernel.Block}
}

func (j *joined) elems(rows int) int { return rows * j.line }

// few is how many pixels an image has at most whose rows are copied with narrow vectors: of eight lanes, or of four.
const few, fours = 8, 4

// fewRows are the rows of images of few pixels, which are alone and side by side.
func (j *joined) fewRows(rows, images, between int, alone, side []float32) (apart, together geometry.PlaneCopy) {
	apart = geometry.PlaneCopy{Images: images, Rows: rows, Src: &alone[0], SrcImage: 4 * between, SrcRow: 4 * j.pixels, Dst: &side[0], DstImage: 4 * j.pixels, DstRow: 4 * j.line}
	apart.SetWidth(j.pixels, 1)
	together = apart
	together.Src, together.SrcImage, together.SrcRow, together.Dst, together.DstImage, together.DstRow = apart.Dst, apart.DstImage, apart.DstRow, apart.Src, apart.SrcImage, apart.SrcRow
	return apart, together
}

// gather copies rows of some images, which lie between apart.
func (j *joined) gather(rows, images, between int, src, dst []float32) {
	lanes := kernel.Lanes()
	if j.pixels <= few && j.pixels != fours {
		apart, _ := j.fewRows(rows, images, between, src, dst)
		apart.Frame()
		return
	}
	for i := range images {
		if j.pixels == fours {
			geometry.CopyFours(rows, src[i*between:], j.pixels, dst[i*j.pixels:], j.line)
			continue
		}
		for col := 0; col < j.pixels; col += lanes {
			gemm.PackAlong(rows, &src[i*between+col], 4*j.pixels, kernel.FirstLanes(min(lanes, j.pixels-col)), &dst[i*j.pixels+col], 4*j.line)
		}
	}
}

// scatter is the way back. What vectors write behind a row belongs to the rows behind it, which are written later; the last
// rows of an image are copied without.
func (j *joined) scatter(rows, images, between int, src, dst []float32) {
	lanes := kernel.Lanes()
	if j.pixels <= few && j.pixels != fours {
		_, together := j.fewRows(rows, images, between, dst, src)
		together.Cut()
		return
	}
	last := max(0, rows-kernel.CeilDiv(lanes, j.pixels))
	for i := range images {
		src, dst := src[i*j.pixels:], dst[i*between:]
		if j.pixels == fours {
			geometry.CopyFours(rows, src, j.line, dst, j.pixels)
			continue
		}
		for col := (j.pixels - 1) / lanes * lanes; col >= 0 && last > 0; col -= lanes {
			gemm.PackAlong(last, &src[col], 4*j.line, kernel.FirstLanes(lanes), &dst[col], 4*j.pixels)
		}
		for row := last; row < rows; row++ {
			copy(dst[row*j.pixels:][:j.pixels], src[row*j.line:])
		}
	}
}

// rows is a product of a group: out rows from in rows, of every image.
type rows struct {
	in, out          int
	weights          []float32 // element (o, i) is at o·row + i·col
	row, col         int
	bias             []float32 // or nil
	x, y             []float32
	between, outStep int  // elements from an image to the next
	line, outLine    int  // elements from a row to the next
	xIsSide, yIsSide bool // the images lie side by side
	safely           int  // the last images, behind which vectors must not read
	place            int  // elements to its packed weights, which lie behind those of groups and parts before
	known            bool // these are packed already
	adds, goesOn     bool // to what parts before have added up, and others will
	again            bool // x is that of the part before
}

// rowsScratch is the room for the products of all images.
func (m *patches) rowsScratch(in, out int) int {
	p := m.plan(m.together.images, in, out)
	return m.weightsElems() + p.scratch() + m.together.elems(m.sideRows(in, out))
}

// sideRows is how many of the rows of a product lie in images: those of patches are copied where they stay.
func (m *patches) sideRows(in, out int) int {
	if m.inPlace {
		return in + out
	}
	return m.p.K / m.p.GroupCount()
}

// weightsElems is the room for the packed weights of all groups and parts, behind which packing writes up to a square of vectors.
func (m *patches) weightsElems() int { return m.rows*m.p.K + kernel.Block*kernel.Block }

// plan is that of products of so many images.
func (m *patches) plan(images, in, out int) plan {
	p := plan{in: in, out: out, pixels: images * m.pixels, reads: m.inPlace || m.back}
	p.far = images == 1 && m.p.Images()*m.p.GroupCount()*m.sideRows(in, out)*m.pixels > cost.SharedElems
	return p
}

// reaching is how many of the last images have fewer elements than a vector behind the rows of group g, of which there are in. Images are between apart.
func (m *patches) reaching(g, in, between int) int {
	behind := (m.p.GroupCount() - 1 - g) * in * m.pixels
	return kernel.CeilDiv(max(0, kernel.Block-behind), between)
}

// run computes r for images; room is for a copy of one of x.
func (m *patches) run(r *rows, images int, room, scratch []float32) {
	weights, scratch := scratch[:m.weightsElems()], scratch[m.weightsElems():]
	if m.together.images > 1 {
		m.together.run(r, images, weights, scratch)
		return
	}
	t := newTiles(m.plan(1, r.in, r.out), r.line, r, weights, scratch)
	t.between, t.outStep, t.outLine = r.between, r.outStep, r.outLine
	t.far = !r.yIsSide && m.p.N*r.outStep > cost.SharedElems
	t.runSafely(images, min(images, r.safely), r.x, r.y, room)
}

// run computes r for images, so many at a time: all of them where there are several parts.
func (j *joined) run(r *rows, images int, weights, scratch []float32) {
	cut := func(rows int) (part []float32) {
		part, scratch = scratch[:j.elems(rows)], scratch[j.elems(rows):]
		return part
	}
	line, outLine := r.line, r.outLine
	var from, to []float32 // the same for all parts
	if !r.xIsSide {
		from, line = cut(r.in), j.line
	}
	if !r.yIsSide {
		to, outLine = cut(r.out), j.line
	}
	t := newTiles(plan{in: r.in, out: r.out, pixels: j.images * j.pixels}, line, r, weights, scratch)
	t.outLine = outLine
	for i := 0; i < images; i += j.images {
		n := min(j.images, images-i)
		t.pixels = n * j.pixels
		x, y := r.x[i*r.between:], r.y[i*r.outStep:]
		if !r.xIsSide {
			if !r.again {
				j.gather(r.in, n, r.between, x, from)
			}
			x = from
		}
		if r.yIsSide {
			t.run(1, x, y)
			continue
		}
		if t.run(1, x, to); !r.goesOn {
			j.scatter(r.out, n, r.outStep, to, y)
		}
	}
}

// What bounds the images of a product, and the elements of both sides, so that they stay in L2; and the cycles that a
// call of the micro-kernel takes beside its products.
const (
	mostJoined      = 16
	mostJoinedElems = 1 << 18
	callCycles      = 40
)

// copyCycles is what a vector takes to be copied. Wide ones wait for memory, which as many narrow ones hide behind products that
// take twice as long.
func copyCycles() float64 {
	if kernel.Lanes() == kernel.Block {
		return 10
	}
	return 3
}

// joins are the images of a product that lie side by side, for shapes and directions, and manyImages those of the batch for which
// they have been found.
var joins geometry.Memo[int]

const manyImages = 32

// joinOf is how many images of a product lie side by side: one if copies take longer than idle lanes.
func joinOf(p *geometry.Shape, d geometry.Direction) int {
	many := *p
	many.N = manyImages
	m := patchesOf(&many, d, channelsOf(p))
	in, out := m.partRows(), p.K/p.GroupCount()
	if d == geometry.ToInput {
		in, out = out, in
	}
	if m.pixels == 1 || m.pixels%kernel.Lanes() == 0 {
		return 1
	}
	best, least := 1, m.cycles(1, in, out)
	for images := 2; images <= min(m.batch, mostJoined, mostJoinedElems/((in+out)*m.pixels)); images++ {
		if c := m.cycles(images, in, out); c < least {
			best, least = images, c
		}
	}
	return best
}

// cycles is about what a batch takes in products of so many images.
func (m *patches) cycles(images, in, out int) float64 {
	t, _ := m.tileTerms(images, in, out)
	return (t[cost.Steps]+callCycles*t[cost.Calls])*m.parts() + copyCycles()*float64(m.copiedVectors(images, in, out))*m.shareOfCopy()
}

// shareOfCopy is what the copy of a vector takes where rows have few pixels, as a part of the time that others take.
func (m *patches) shareOfCopy() float64 {
	if m.pixels <= few {
		return 0.25
	}
	return 1
}

// tileTerms is the tiles of a batch and part in products of so many images, and how many vectors of pixels they have.
func (m *patches) tileTerms(images, in, out int) (t cost.Terms, vectors int) {
	if images == 1 {
		p := m.plan(1, in, out)
		lanes := p.lanes()
		vectors = m.batch * kernel.CeilDiv(m.pixels, lanes)
		return cost.TilesOf(lanes, vectors, in, out), vectors
	}
	add := func(times, images int) {
		p := m.plan(images, in, out)
		lanes := p.lanes()
		n := kernel.CeilDiv(images*m.pixels, lanes)
		t.Add(cost.TilesOf(lanes, n, in, out).Times(float64(times)))
		vectors += times * n
	}
	add(m.batch/images, images)
	if rest := m.batch % images; rest > 0 {
		add(1, rest)
	}
	return t, vectors
}

// copiedVectors is how many vectors a batch in products of so many images copies: of both sides, but of patches, which
// lie side by side in any case, only of the other one.
func (m *patches) copiedVectors(images, in, out int) int {
	if images == 1 {
		return 0
	}
	return m.batch * m.sideRows(in, out) * kernel.CeilDiv(m.pixels, kernel.Lanes())
}
