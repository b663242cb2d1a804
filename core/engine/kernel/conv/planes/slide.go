package planes

import (
	"unsafe"

	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/geometry"
)

// slider is a depthwise convolution with filters of 3×3 and stride 1 that is computed straight from the image, without a
// frame: kernels go down columns of vectors, of which masks leave out what lies beside the image, and leave out rows above and
// below it. One call computes a run of planes. Vectors at the edges of a plane look at its neighbours in
// memory, so the first and the last plane are computed from copies.
type slider struct {
	images, planes     int
	h, w, oh, ow       int // of planes of x, and of y
	top, left          int // padding
	stepH, stepW       int // dilation
	lanes, blocks      int
	table              []float32 // slideBlock for each block of columns, and masks
	guarded, guardedTo []float32 // copies of planes of x and y, with room beside them
}

const (
	slideTaps    = 3 // of a row, and of a column
	slideWeights = slideTaps * slideTaps
	slideImages  = 4  // whose products the kernel of weight gradients adds up at a time, at most; that of results takes two
	slideReach   = 16 // elements that a view is shifted by, at most
	slideGuard   = slideReach + kernel.Block
)

// slideBlock is the start of what kernels know of a block of columns: byte offsets in x and y. Masks of the views of each
// tap and of dy follow. The layout is known to gen/conv/slide.go, as are those below.
type slideBlock struct {
	x, y int
	_    [6]int
}

// slideRows is a call of the kernel of results, for one image or two: of lead rows of x, which complete no row of y,
// of rows that complete one each, and of tail rows of y that these leave. Steps are bytes.
type slideRows struct {
	x, y                   *float32
	xNext, yNext           int // to the other image
	planes, xPlane, yPlane int
	blocks                 int
	table                  *float32
	lead, rows, tail       int
	xRow, yRow, xColumn    int      // xColumn: to the next tap's view
	weights                *float32 // [planes][3][3]
	bias                   *float32
	biasNext               int

	xAt, yAt, left, weightsAt, biasAt int // room for the kernel: addresses that it moves on are no pointers
}

// slideDots is a call of the kernel of weight gradients: before the first row of x are so many of dy, rows of both follow, and
// after these rows of x alone. Steps are bytes.
type slideDots struct {
	x, dy                   *float32
	images, xImage, dyImage int
	planes, xPlane, dyPlane int
	blocks                  int
	table                   *float32
	before, rows, after     int
	xRow, dyRow, xColumn    int
	sums                    *float32 // [planes][3][3][lanes]

	xAt, dyAt, left, blocksLeft, xPlaneAt, dyPlaneAt, sumsAt int // room for the kernel, as above
}

// slides reports whether a direction can be computed so.
func slides(p *geometry.Shape, d geometry.Direction) bool {
	if p.StrideH != 1 || p.StrideW != 1 || p.K != p.C || !p.Depthwise() {
		return false
	}
	if p.R != slideTaps || p.S != slideTaps {
		return false
	}
	s := sliderOf(p, d)
	if s.top < 0 || s.left < 0 || s.top > 2*s.stepH || s.left > 2*s.stepW || 2*s.stepW > slideReach || s.h < s.stepH {
		return false
	}
	if beyond := s.lanes + 2*s.stepW; min(s.h*s.w, s.oh*s.ow) < beyond { // more than one neighbour
		return false
	}
	for e := range s.stepH {
		c := s.class(e)
		if c.rows <= c.lead || c.tail < 0 || c.tail > 2 || c.outs < c.before {
			return false
		}
	}
	return s.stepH == 1 || s.ow >= s.lanes // else vectors would overwrite rows of another class
}

// sliderOf is the convolution that a direction is.
func sliderOf(p *geometry.Shape, d geometry.Direction) slider {
	s := slider{
		images: p.N, planes: p.C, h: p.H, w: p.W, oh: p.OutH(), ow: p.OutW(),
		top: p.PadH, left: p.PadW, stepH: p.DilationH(), stepW: p.DilationW(),
	}
	if d == geometry.ToInput {
		s.h, s.w, s.oh, s.ow = s.oh, s.ow, s.h, s.w
		s.top, s.left = 2*s.stepH-s.top, 2*s.stepW-s.left
	}
	s.lanes = geometry.LanesFor(s.ow)
	s.blocks = kernel.CeilDiv(s.ow, s.lanes)
	return s
}

// slideClass is the rows of x, every so many of a dilation, that meet the same rows of y.
type slideClass struct {
	x, y               int // the first row of each
	rows, outs         int
	before, lead, tail int // rows of y that the first row of x is not the first to meet; slideRows
}

// class is that of row e of x. Its lead and its tail are those of filters of 3×3.
func (s *slider) class(e int) slideClass {
	c := slideClass{x: e, y: (e + s.top) % s.stepH, before: (e + s.top) / s.stepH, rows: kernel.CeilDiv(s.h-e, s.stepH)}
	c.outs = kernel.CeilDiv(max(0, s.oh-c.y), s.stepH)
	c.lead = slideTaps - 1 - c.before
	c.tail = c.outs - (c.rows - c.lead)
	return c
}

// blockElems is the size of a block in the table.
func (s *slider) blockElems() int {
	return int(unsafe.Sizeof(slideBlock{}))/4 + (slideTaps+1)*s.lanes
}

// copies is the sizes of guarded copies of planes of x and of y.
func (s *slider) copies() (x, y int) {
	return slideImages*s.h*s.w + 2*slideGuard, slideImages*s.oh*s.ow + 2*slideGuard
}

// scratch is the elements that a direction needs.
func (s *slider) scratch() int {
	x, y := s.copies()
	return s.blocks*s.blockElems() + slideWeights*s.planes*(s.lanes+1) + x + y
}

// prepare takes scratch for copies.
func (s *slider) prepare(scratch []float32) (rest []float32) {
	x, y := s.copies()
	s.guarded, scratch = scratch[:x], scratch[x:]
	s.guardedTo, rest = scratch[:y], scratch[y:]
	clear(s.guarded)
	clear(s.guardedTo)
	return rest
}

// list takes scratch and lists the blocks. Where sums are over them, no column is in two.
func (s *slider) list(once bool, scratch []float32) (rest []float32) {
	size := s.blockElems()
	s.table, rest = scratch[:s.blocks*size], scratch[s.blocks*size:]
	for i := range s.blocks {
		entry := s.table[i*size:][:size]
		at := max(0, min(i*s.lanes, s.ow-s.lanes))
		*(*slideBlock)(unsafe.Pointer(&entry[0])) = slideBlock{x: 4 * (at - s.left), y: 4 * at}
		n := (slideTaps + 1) * s.lanes
		masks := unsafe.Slice((*int32)(unsafe.Pointer(&entry[size-n])), n)
		clear(masks)
		for lane := range s.lanes {
			column := at + lane
			if column >= s.ow || once && column < i*s.lanes {
				continue
			}
			masks[slideTaps*s.lanes+lane] = -1
			for tap := range slideTaps {
				if seen := column - s.left + tap*s.stepW; seen >= 0 && seen < s.w {
					masks[tap*s.lanes+lane] = -1
				}
			}
		}
	}
	return rest
}

// edges calls edge for the first and the last plane of some images if they need copies, and run for those between.
func (s *slider) edges(n, images int, overwrites bool, edge func(plane int), run func(from, to int)) {
	from, to := 0, s.planes
	if n == 0 {
		edge(0)
		from = 1
	}
	last := n+images == s.images || overwrites
	if last {
		to = max(from, to-1)
	}
	if from < to {
		run(from, to)
	}
	if to < s.planes {
		edge(to)
	}
}

// convolve computes y from x: weights are [planes][3][3].
func (s *slider) convolve(x, weights, bias, y []float32) {
	const pair = 2
	plane, result := s.h*s.w, s.oh*s.ow
	for n := 0; n < s.images; n += pair {
		images := min(pair, s.images-n)
		s.edges(n, images, s.ow < s.lanes, func(c int) {
			between := result + slideGuard
			s.guard(s.guarded, n, images, c, plane, x)
			s.results(images, c, c+1, plane, between, s.guarded[slideGuard:], weights, bias, s.guardedTo)
			for i := range images {
				copy(y[((n+i)*s.planes+c)*result:][:result], s.guardedTo[i*between:])
			}
		}, func(from, to int) {
			at := n*s.planes + from
			s.results(images, from, to, s.planes*plane, s.planes*result, x[at*plane:], weights, bias, y[at*result:])
		})
	}
}

// guard copies a plane of some images.
func (s *slider) guard(to []float32, n, images, c, plane int, x []float32) {
	for i := range images {
		copy(to[slideGuard+i*plane:][:plane], x[((n+i)*s.planes+c)*plane:])
	}
}

// results computes planes of one image or two, which lie xNext and yNext elements apart.
func (s *slider) results(images, from, to, xNext, yNext int, x, weights, bias, y []float32) {
	var zero float32
	t := slideRows{
		xNext: 4 * xNext, yNext: 4 * yNext, planes: to - from, xPlane: 4 * s.h * s.w, yPlane: 4 * s.oh * s.ow, table: &s.table[0],
		xRow: 4 * s.stepH * s.w, yRow: 4 * s.stepH * s.ow, xColumn: 4 * s.stepW, blocks: s.blocks,
	}
	s.eachClass(from, to, func(c slideClass, from, planes, offset int) {
		t.planes, t.lead, t.rows, t.tail = planes, c.lead, c.rows-c.lead, c.tail
		t.x, t.y, t.weights = &x[offset*s.h*s.w+c.x*s.w], &y[offset*s.oh*s.ow+c.y*s.ow], &weights[from*slideWeights]
		if t.bias = &zero; bias != nil {
			t.bias, t.biasNext = &bias[from], 4
		}
		runSlideRows(s.lanes, images, &t)
	})
}

// eachClass calls f for the rows that meet each other, of all planes at once if these are all rows, and else plane by plane. The
// offset is in planes.
func (s *slider) eachClass(from, to int, f func(c slideClass, from, planes, offset int)) {
	if s.stepH == 1 {
		f(s.class(0), from, to-from, 0)
		return
	}
	for plane := from; plane < to; plane++ {
		for e := range s.stepH {
			f(s.class(e), plane, 1, plane-from)
		}
	}
}

// gradWeight is GradWeight.
func (s *slider) gradWeight(x, dy, dw, scratch []float32, accumulate bool) bool {
	n := s.planes * slideWeights
	sums, totals := scratch[:n*s.lanes], scratch[n*s.lanes:][:n]
	clear(sums)
	plane, result := s.h*s.w, s.oh*s.ow
	const few = 128 // pixels for which sums are kept in registers: planes of more images are further apart
	atOnce := min(slideImages, max(1, few/plane))
	for n := 0; n < s.images; n += atOnce {
		images := min(atOnce, s.images-n)
		s.edges(n, images, false, func(c int) {
			s.guard(s.guarded, n, images, c, plane, x)
			s.guard(s.guardedTo, n, images, c, result, dy)
			s.dots(sums, images, c, c+1, plane, result, s.guarded[slideGuard:], s.guardedTo[slideGuard:])
		}, func(from, to int) {
			at := n*s.planes + from
			s.dots(sums, images, from, to, s.planes*plane, s.planes*result, x[at*plane:], dy[at*result:])
		})
	}
	geometry.LaneSums(s.lanes, sums, totals)
	return writeSums(totals, dw, accumulate)
}

// dots adds the products of planes of some images, which lie xImage and dyImage elements apart, to sums, [planes][rows][columns][lanes].
func (s *slider) dots(sums []float32, images, from, to, xImage, dyImage int, x, dy []float32) {
	t := slideDots{
		images: images, xImage: 4 * xImage, dyImage: 4 * dyImage, xPlane: 4 * s.h * s.w, dyPlane: 4 * s.oh * s.ow, blocks: s.blocks, table: &s.table[0],
		xRow: 4 * s.stepH * s.w, dyRow: 4 * s.stepH * s.ow, xColumn: 4 * s.stepW,
	}
	s.eachClass(from, to, func(c slideClass, from, planes, offset int) {
		t.planes, t.before, t.rows = planes, c.before, min(c.rows, c.outs-c.before)
		t.after = min(c.rows-t.rows, slideTaps-1)
		t.x, t.dy = &x[offset*s.h*s.w+c.x*s.w], &dy[offset*s.oh*s.ow+c.y*s.ow]
		t.sums = &sums[from*slideWeights*s.lanes]
		runSlideDots(s.lanes, 1, &t)
	})
}

// slideForward is Forward, and slideGradInput GradInput, of which the filters lie turned around.
func slideForward(p *geometry.Shape, x, w, bias, y, scratch []float32) {
	s := sliderOf(p, geometry.ToOutput)
	s.list(false, s.prepare(scratch))
	s.convolve(x, w, bias, y)
}

func slideGradInput(p *geometry.Shape, dy, w, dx, scratch []float32) {
	s := sliderOf(p, geometry.ToInput)
	scratch = s.list(false, s.prepare(scratch))
	turned := scratch[:s.planes*slideWeights]
	geometry.TurnFilters(slideWeights, w[:len(turned)], turned)
	s.convolve(dy, turned, nil, dx)
}

func slideGradWeight(p *geometry.Shape, x, dy, dw, scratch []float32, accumulate bool) bool {
	s := sliderOf(p, geometry.ToWeight)
	return s.gradWeight(x, dy, dw, s.list(true, s.prepare(scratch)), accumulate)
}
