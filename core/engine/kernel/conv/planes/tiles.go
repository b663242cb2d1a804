package planes

import (
	"unsafe"

	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/cost"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/geometry"
)

// tiled is a depthwise convolution with stride 1 by filters of 3, 5 or 7 rows, or with stride 2 by filters of 5 or 7 rows, but for its input
// gradients. It is computed straight from the image with vectors of eight lanes. A tile of some rows of y is in registers while the filter's
// columns meet it, one after the other. Masks leave out columns beside the plane, and rows above and below it are left out. Vectors at the edges
// of a plane look at its neighbours in memory, so the first plane and the last are read from copies.
type tiled struct {
	images, planes int
	batch          int // images of all threads
	toInput        bool
	size, columns  int // of the filter
	h, w, oh, ow   int // of planes of x, and of y
	top, left      int // padding
	stepH, stepW   int // dilation
	stride         int
	table          []rowTile
	masks          []int32
	odds           *float32
}

// rowTile is some rows of a block of eight columns of y. Those of x that the first of y sees through the filter begin at x, and the ones from first to end lie in the
// plane. Rows are written as whole vectors, but those from whole on, of which as many lanes are as a row has. x, y and masks are bytes. The
// layout is known to gen/conv/tiles.go, as is that below.
type rowTile struct{ x, y, rows, first, end, masks, whole int }

// tilePlanes is a call: planes of an image, or, for weight gradients, of several. Steps are bytes.
type tilePlanes struct {
	x, y                   *float32
	planes, xPlane, yPlane int
	images, xImage, yImage int
	xRow, yRow, xColumn    int // xColumn: to what the next column of the filter sees
	columns                int
	tiles                  int
	table                  *rowTile
	masks                  *int32 // of each block: of y, and of what each column of the filter sees
	weights                *float32
	weightStep, weightRow  int // from a weight to the one right of it, and below it: those below 0 turn filters around
	weightsPlane           int
	bias                   *float32
	biasNext               int
	sums                   *float32 // [planes][rows][columns][lanes]
	sumsRow, sumsPlane     int

	xAt, yAt, xPlaneAt, yPlaneAt, weightsAt, biasAt, sumsAt, imagesLeft, tilesLeft int // room for the kernel: addresses that it moves on are no pointers

	lanes kernel.Mask // of a row of y, if it has fewer than eight
	far   int         // not 0: see tiled.far
	odds  *float32    // room for what a column of the filter sees, with stride 2
}

const (
	tileReach    = 16                   // elements that the columns of a filter lie apart at most
	tileGuard    = tileReach + 2*narrow // elements beside copies of planes that vectors may look at
	tileImages   = 4                    // whose planes of a channel are summed at a time, at most
	tileSmall    = 64                   // pixels of a plane that one tile or two hold
	tileOdds     = 17 * narrow          // elements that a column of the filter sees of a tile with stride 2, at most
	rowTileElems = int(unsafe.Sizeof(rowTile{})) / 4
)

// takesTiles reports whether these kernels compute a direction.
func takesTiles(p *geometry.Shape, d geometry.Direction) bool {
	if kernel.Wide() && !kernel.Halves() || !p.Depthwise() || p.K != p.C || p.StrideH != p.StrideW || p.StrideH > 2 {
		return false
	}
	s, dilated := tiledOf(p, d), p.DilationH() > 1 || p.DilationW() > 1
	const half = narrow / 2 // columns: vectors of fewer waste lanes, and would overwrite two rows
	switch {
	case s.ow < half:
		return false
	case s.stride > 1:
		if s.size != 5 && (s.size != 7 || kernel.Halves()) || s.toInput || dilated || s.ow == half { // 7 rows are not measured where vectors are computed in halves
			return false
		}
	case s.size == 3:
		few := s.h*s.w <= tileSmall && s.ow > half && d != geometry.ToWeight // whose planes slide.go's kernels read ahead of time
		if !dilated && !few && slides(p, d) {
			return false
		}
	case s.size != 5 && s.size != 7:
		return false
	}
	if p.PadH > (s.size-1)*s.stepH || p.PadW > (s.columns-1)*s.stepW || (s.columns-1)*s.stepW > tileReach {
		return false
	}
	return s.oh*s.ow >= narrow && s.h*s.w >= s.reach()
}

// reach is how many elements before or behind one of a plane vectors look at from there, at most.
func (s *tiled) reach() int { return (s.columns-1)*s.stepW + s.stride*narrow }

// tiledOf is the convolution that a direction is.
func tiledOf(p *geometry.Shape, d geometry.Direction) tiled {
	s := tiled{
		images: p.N, planes: p.C, batch: p.Images(), toInput: d == geometry.ToInput, size: p.R, columns: p.S, h: p.H, w: p.W, oh: p.OutH(), ow: p.OutW(),
		top: p.PadH, left: p.PadW, stepH: p.DilationH(), stepW: p.DilationW(), stride: p.StrideH,
	}
	if s.toInput {
		s.h, s.w, s.oh, s.ow = s.oh, s.ow, s.h, s.w
		s.top, s.left = (s.size-1)*s.stepH-s.top, (s.columns-1)*s.stepW-s.left
	}
	return s
}

// rows is how many a tile has at most.
func (s *tiled) rows() int {
	if s.size == 7 {
		return 8 - s.stride
	}
	return 8
}

// blocks is how many blocks of columns there are, and taps the weights of a filter.
func (s *tiled) blocks() int { return kernel.CeilDiv(s.ow, narrow) }
func (s *tiled) taps() int   { return s.size * s.columns }

// tiles is how many a plane has.
func (s *tiled) tiles() (n int) {
	rowTiles(s.oh, s.stepH, s.rows(), func(_, _ int) { n += s.blocks() })
	return n
}

// sumChannels is how many channels are summed at a time.
func (s *tiled) sumChannels() int {
	return channelsSummed(s.planes, s.taps(), s.images*s.planes*(s.h*s.w+s.oh*s.ow))
}

// copyElems is the size of copies of planes of some images with room beside them.
func (s *tiled) copyElems(plane int) int { return tileImages*plane + 2*tileGuard }

// scratch is the elements that a direction needs.
func (s *tiled) scratch(d geometry.Direction) int {
	n := s.tiles()*rowTileElems + s.blocks()*(s.columns+1)*narrow + tileOdds + s.copyElems(s.h*s.w) + kernel.Block
	if d == geometry.ToWeight {
		n += s.copyElems(s.oh*s.ow) + s.planes*s.taps() + s.sumChannels()*s.taps()*narrow + kernel.Block
	}
	return n
}

// prepare lists the tiles and the masks in scratch. Where sums are over them, no column is in two.
func (s *tiled) prepare(once bool, scratch []float32) (rest []float32) {
	rest = geometry.Aligned(scratch)
	n := s.blocks() * (s.columns + 1) * narrow
	s.masks, rest = unsafe.Slice((*int32)(unsafe.Pointer(&rest[0])), n), rest[n:]
	s.odds, rest = &rest[0], rest[tileOdds:]
	n = s.tiles()
	s.table, rest = unsafe.Slice((*rowTile)(unsafe.Pointer(&rest[0])), n)[:0], rest[n*rowTileElems:]
	for i := range s.blocks() {
		s.mask(i, once)
	}
	rowTiles(s.oh, s.stepH, s.rows(), func(row, rows int) {
		for i := range s.blocks() {
			s.table = append(s.table, s.tile(i, row, rows))
		}
	})
	return rest
}

// column is the first of a block.
func (s *tiled) column(block int) int { return max(0, min(block*narrow, s.ow-narrow)) }

// mask sets the masks of a block.
func (s *tiled) mask(block int, once bool) {
	masks := s.masks[block*(s.columns+1)*narrow:][:(s.columns+1)*narrow]
	clear(masks)
	for lane := range narrow {
		column := s.column(block)
		if s.stride == 1 {
			column += lane
		} else {
			column += laneColumns[lane]
		}
		if column >= s.ow || once && column < block*narrow {
			continue
		}
		masks[lane] = -1
		for tap := range s.columns {
			if seen := s.stride*column - s.left + tap*s.stepW; seen >= 0 && seen < s.w {
				masks[(tap+1)*narrow+lane] = -1
			}
		}
	}
}

// tile is that of some rows, every stepH from one on, and of a block of columns.
func (s *tiled) tile(block, row, rows int) rowTile {
	above, column := s.stride*row-s.top, s.column(block)
	t := rowTile{x: 4 * (above*s.w + s.stride*column - s.left), y: 4 * (row*s.ow + column), rows: rows, whole: rows}
	t.masks = 4 * block * (s.columns + 1) * narrow
	t.first, t.end = insideRows(above, s.stride*(rows-1)+s.size, s.stepH, s.h)
	switch last := row + rows; {
	case s.ow >= narrow:
	case s.stepH > 1: // rows between these are in other tiles
		t.whole = 0
	case last == s.oh:
		t.whole--
	}
	return t
}

// call is that for planes of x and y.
func (s *tiled) call(planes int, x, y *float32) tilePlanes {
	return tilePlanes{
		x: x, y: y, planes: planes, xPlane: 4 * s.h * s.w, yPlane: 4 * s.oh * s.ow,
		xRow: 4 * s.stepH * s.w, yRow: 4 * s.stepH * s.ow, xColumn: 4 * s.stepW, columns: s.columns,
		tiles: len(s.table), table: &s.table[0], masks: &s.masks[0], lanes: kernel.FirstOfEight(min(s.ow, narrow)), far: s.far(), odds: s.odds,
	}
}

// far is 1 where planes do not stay in a cache and are read every few rows, for which kernels prefetch those that follow.
func (s *tiled) far() int {
	if s.batch*s.planes*(s.h*s.w+s.oh*s.ow) >= cost.FarElems/2 {
		return 1
	}
	return 0
}

// edges calls f for runs of planes from one of some images on to another: for the first plane of all and the last one alone, if vectors look beside them.
func (s *tiled) edges(n, images, from, to int, f func(from, to int, alone bool)) {
	if n == 0 && from == 0 {
		f(0, 1, true)
		from = 1
	}
	end := to
	if n+images == s.images && to == s.planes {
		end = max(from, to-1)
	}
	if from < end {
		f(from, end, false)
	}
	if end < to {
		f(end, to, true)
	}
}

// guard copies a channel's planes of some images to room, and returns where the first lies.
func (s *tiled) guard(n, images, channel, plane int, x, room []float32) *float32 {
	for i := range images {
		copy(room[tileGuard+i*plane:][:plane], x[((n+i)*s.planes+channel)*plane:])
	}
	return &room[tileGuard]
}

// convolve computes y from x, w and a bias, or the gradient of x from that of y with filters turned around.
func (s *tiled) convolve(x, w, bias, y, scratch []float32) {
	copied := s.prepare(false, scratch)[:s.copyElems(s.h*s.w)]
	clear(copied)
	for n := range s.images {
		s.edges(n, 1, 0, s.planes, func(from, to int, alone bool) {
			at := n*s.planes + from
			in := &x[at*s.h*s.w]
			if alone {
				in = s.guard(n, 1, from, s.h*s.w, x, copied)
			}
			t := s.call(to-from, in, &y[at*s.oh*s.ow])
			t.weights, t.weightStep, t.weightsPlane, t.bias = &w[from*s.taps()], 4, 4*s.taps(), &geometry.NoBias[0]
			if s.toInput {
				t.weights, t.weightStep = &w[(from+1)*s.taps()-1], -4
			}
			t.weightRow = s.columns * t.weightStep
			if bias != nil {
				t.bias, t.biasNext = &bias[from], 4
			}
			s.runForward(&t)
		})
	}
}

func (s *tiled) runForward(t *tilePlanes) {
	switch {
	case s.stride > 1 && s.size == 5:
		vecTileForward5Strided(t)
	case s.stride > 1:
		vecTileForward7Strided(t)
	case s.size == 3:
		vecTileForward3(t)
	case s.size == 5:
		vecTileForward5(t)
	default:
		vecTileForward7(t)
	}
}

func (s *tiled) runDots(t *tilePlanes) {
	switch {
	case s.stride > 1 && s.size == 5:
		vecTileDots5Strided(t)
	case s.stride > 1:
		vecTileDots7Strided(t)
	case s.size == 3:
		vecTileDots3(t)
	case s.size == 5:
		vecTileDots5(t)
	default:
		vecTileDots7(t)
	}
}

// gradWeight is GradWeight.
func (s *tiled) gradWeight(x, dy, dw, scratch []float32, accumulate bool) bool {
	rest := s.prepare(true, scratch)
	inX, inDY := s.copyElems(s.h*s.w), s.copyElems(s.oh*s.ow)
	copies, rest := rest[:inX+inDY], rest[inX+inDY:]
	clear(copies)
	totals, lanes := rest[:s.planes*s.taps()], geometry.Aligned(rest[s.planes*s.taps():])
	together := tileImages
	if s.h*s.w > tileSmall {
		together /= 2
	}
	for channel, atOnce := 0, s.sumChannels(); channel < s.planes; channel += atOnce {
		to := min(channel+atOnce, s.planes)
		lanes := lanes[:(to-channel)*s.taps()*narrow]
		clear(lanes)
		for n := 0; n < s.images; n += together {
			images := min(together, s.images-n)
			s.edges(n, images, channel, to, func(from, to int, alone bool) {
				s.sum(n, images, from, to, alone, x, dy, lanes[(from-channel)*s.taps()*narrow:], copies[:inX], copies[inX:])
			})
		}
		geometry.LaneSums(narrow, lanes, totals[channel*s.taps():to*s.taps()])
	}
	return writeSums(totals, dw, accumulate)
}

// sum adds the products of some images' planes to lanes.
func (s *tiled) sum(n, images, from, to int, alone bool, x, dy, lanes, xCopy, dyCopy []float32) {
	plane, result, at := s.h*s.w, s.oh*s.ow, n*s.planes+from
	t := s.call(to-from, &x[at*plane], &dy[at*result])
	t.images, t.xImage, t.yImage = images, 4*s.planes*plane, 4*s.planes*result
	if alone {
		t.x, t.xImage = s.guard(n, images, from, plane, x, xCopy), 4*plane
		t.y, t.yImage = s.guard(n, images, from, result, dy, dyCopy), 4*result
	}
	t.sums, t.sumsRow, t.sumsPlane = &lanes[0], 4*narrow*s.columns, 4*narrow*s.taps()
	s.runDots(&t)
}

// tiledTerms counts what a direction does. See package cost.
func tiledTerms(p *geometry.Shape, d geometry.Direction) (t cost.Terms) {
	s := tiledOf(p, d)
	planes := float64(s.images * s.planes)
	t[wideProducts] = planes * float64(s.blocks()*s.oh*s.taps()*narrow) / kernel.Block
	t[wideTiles] = planes * float64(s.tiles())
	if d == geometry.ToWeight {
		t[wideTiles] *= 2 // sums of each column are loaded and stored
	}
	return t
}

// tilesForward is Forward, tilesGradInput GradInput, and tilesGradWeight GradWeight.
func tilesForward(p *geometry.Shape, x, w, bias, y, scratch []float32) {
	s := tiledOf(p, geometry.ToOutput)
	s.convolve(x, w, bias, y, scratch)
}

func tilesGradInput(p *geometry.Shape, dy, w, dx, scratch []float32) {
	s := tiledOf(p, geometry.ToInput)
	s.convolve(dy, w, nil, dx, scratch)
}

func tilesGradWeight(p *geometry.Shape, x, dy, dw, scratch []float32, accumulate bool) bool {
	s := tiledOf(p, geometry.ToWeight)
	return s.gradWeight(x, dy, dw, scratch, accumulate)
}
