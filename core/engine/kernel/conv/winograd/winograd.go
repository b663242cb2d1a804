package winograd

import (
	"os"

	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/geometry"
)

// Winograd convolution of float32 images with stride 1 (Winograd, "Arithmetic
// Complexity of Computations", 1980; Lavin and Gray, "Fast Algorithms for
// Convolutional Neural Networks", 2016): a tile of P×P pixels and a filter of
// R×R taps are each evaluated at P×P points, multiplied there, and interpolated
// to S×S outputs, S = P + 1 − R. For float32 images S is 4: with P = 6 a 3×3 filter costs 2.25 products per output instead
// of 9, with P = 8 a 5×5 filter 4 instead of 25. The gradient for the weights is
// the same with a tile of dy as the filter.
//
// Dilated filters see every second pixel, say, of every second row: the pixels fall apart into
// phases, each of which is an image of its own that a filter without dilation sees. Tiles of a
// phase are read from where its pixels lie, and their outputs are written there.
//
// Groups of channels are convolutions of their own, one after the other.
//
// The points are 0, ±3/4, ±3/2 and ∞ for 3×3 filters, whose results are about
// twice as far from the exact ones as a direct float32 sum; 0, ±1, ±2, ±1/2 and ∞
// for 5×5, five times as far: 2e-6 of the outputs' size. What is not finite
// spreads over its tile, and an infinity may become NaN; nothing that ought to be
// infinite or NaN becomes finite.
//
// A 3×3 filter with stride 2 splits along each side: the outer taps see every second
// pixel, as a filter of two taps with stride 1 does, and the middle tap sees those
// between. Four outputs of the first take five points, ±3/8, ±5/4 and ∞, those of the
// second four plain products: P = 9 for S = 4 outputs of a tile of 9 pixels, 5.06
// products per output instead of 9, and no more rounding than in a direct sum. The
// gradient for the input goes from 5 values of dy to 8 pixels by as many products.
//
// Filters of one row or one column, of 3, 5 or 7 taps, go the same way along it: three taps and four outputs take
// 6 products instead of 12, five 8 instead of 20, and seven taps and two outputs 8 instead of 14.
//
// A 1×1 filter with a stride has one product per output anyway. It goes the same
// way, with P = S = 1, for how little it takes to gather the pixels that it sees.
//
// A vector holds 16 channels. Points lie as [P·P][channels/16][tiles][16]. Those of the data are packed for products with
// filters: the tiles of a micro-kernel lie in one piece for all channels of a block of filters, in the order in which
// it reads them, so the CPU foresees what comes from the L3 cache: [P·P][blocks of filters][micro-kernels][channels/16][tiles][16]. The
// work goes in groups of rows of tiles, padded to whole micro-kernels, and in
// blocks of filters that stay in the L2 cache. Where 16 does not divide the channels, the last
// vector begins 16 before their end and has some of the channels before it once more: filters are zero
// for those of the input, and those of the output get the same values twice.

const (
	maxPoints     = 11
	outputSide    = 4 // of a tile of outputs, for float32 images
	longLineSide  = 2 // of seven taps in a line
	halvingPoints = 9 // of a tile of outputs with stride 2
	channelLanes  = 16
	blockTo       = 2 * channelLanes // output channels of a block of filters
)

// EnvConv names the environment variable that chooses between algorithms of
// convolution: "direct" leaves Winograd out.
const EnvConv = "TRAINCTL_CONV"

// Disabled keeps every convolution from this algorithm. Tests set it, too.
var Disabled = os.Getenv(EnvConv) == "direct"

// Bounds in elements. Filters whose points fit into winogradFilterElems make one
// block, which is evaluated once; a group of tiles is then small, to stay in L2
// beside them. Larger ones are evaluated anew for each group, block by block of at most
// winogradBlockElems, and groups are as large as it takes for that to be cheap.
const (
	winogradFilterElems = 1 << 18
	winogradBlockElems  = 1 << 17
	winogradGroupElems  = 1 << 17
	winogradManyTiles   = 128
)

// transform is a call of a kernel that turns count squares of vectors into
// squares of another size. Rows, columns and steps are in bytes; tmp has room
// for 64 vectors. The kernel counts in its fields. The layout is known to gen/conv/winograd.go.
type transform struct {
	count                   int
	in                      *float32
	inRow, inCol, inStep    int
	out                     *float32
	outRow, outCol, outStep int
	tmp                     *float32
	part                    int // bytes of the 16 channels that are done, where they take several registers: 0 before and after
}

// pointShape is the tile of the micro-kernel that suits a level: rows of tiles of
// pixels by blocks of 16 output channels. Where there is a kernel of one row less, both
// together make any even number of tiles from 20 on.
type pointShape struct {
	tileRows, tileBlocks int
	fewer                bool
}

var pointShapes = [...]pointShape{kernel.NEON: {6, 1, true}, kernel.AVX2: {6, 1, true}, kernel.AVX512: {8, 2, false}}

// split says how many tiles have the full height, and how many one row less, to make so
// many rows; full is negative if they cannot.
func (s pointShape) split(rows int) (full, less int) {
	if rest := rows % s.tileRows; s.fewer && rest > 0 {
		less = s.tileRows - rest
	}
	return (rows - less*(s.tileRows-1)) / s.tileRows, less
}

// kernelAt is the first tile of the micro-kernel that has a tile, and its rows: full of them have all, and those behind one less.
func (s pointShape) kernelAt(tile, full int) (first, rows int) {
	rows = s.tileRows
	if high := full * rows; tile >= high {
		first, rows = high, rows-1
	}
	return first + (tile-first)/rows*rows, rows
}

// whole rounds tiles up to whole micro-kernels.
func (s pointShape) whole(tiles int) int {
	if !s.fewer {
		return kernel.CeilDiv(tiles, s.tileRows) * s.tileRows
	}
	tiles += tiles % 2
	for less := 0; ; tiles += 2 {
		if _, less = s.split(tiles); less*(s.tileRows-1) <= tiles {
			return tiles
		}
	}
}

// pointTile is a call of the micro-kernel between transforms: count times as many rows
// as it has, of one or two blocks of 16 channels. The sum runs over blocks times steps; behind each block
// the address in A jumps. The kernel counts in its fields. The layout is known to gen/conv/winograd.go.
type pointTile struct {
	count, blocks, steps, jump int
	a                          *float32
	aStep                      int // bytes from these rows to the next, cStep likewise
	b0, b1, c0, c1             *float32
	cStep                      int
	add                        int
}

// size is that of a rectangle, or a distance in both dimensions.
type size struct{ h, w int }

func (s size) area() int { return s.h * s.w }

func square(side int) size { return size{side, side} }

// filterSize is that of the filters of p.
func filterSize(p *geometry.Shape) size { return size{p.R, p.S} }

// tileOf is the tile of outputs of p, whose squares have such a side.
func tileOf(p *geometry.Shape, side int) size {
	if IsLine(p) {
		return size{lineSide(p.R), lineSide(p.S)}
	}
	return square(side)
}

// lineSide is the outputs of a tile along a line of so many taps.
func lineSide(taps int) int {
	switch taps {
	case 1:
		return 1
	case 7:
		return longLineSide
	}
	return outputSide
}

// points is how many points a tile of outputs has.
func (s size) points(p *geometry.Shape) size { return size{s.h + p.R - 1, s.w + p.S - 1} }

// Takes reports whether Winograd can compute p at the active level and saves enough products to pay.
func Takes(p *geometry.Shape) bool { return takesTiles(p, outputSide) }

// takesTiles is Takes for tiles whose squares are of side×side outputs.
func takesTiles(p *geometry.Shape, side int) bool {
	if kernel.Current() == kernel.Generic || Disabled || min(p.C, p.K) < channelLanes*p.GroupCount() {
		return false
	}
	one := groupOf(p)
	return stride1(&one, side) || stride2(&one) || picks(&one)
}

// groupOf is the convolution of one group of channels.
func groupOf(p *geometry.Shape) geometry.Shape {
	one, groups := *p, p.GroupCount()
	one.C, one.K, one.Groups = p.C/groups, p.K/groups, 1
	return one
}

// IsLine reports whether filters are of one row or one column, of 3, 5 or 7 taps, with stride 1.
func IsLine(p *geometry.Shape) bool {
	taps := max(p.R, p.S)
	return p.Stride1() && min(p.R, p.S) == 1 && (taps == 3 || taps == 5 || taps == 7)
}

// padded rounds a number of channels, or of pixels of a row, up to whole vectors.
func padded(channels int) int { return kernel.CeilDiv(channels, channelLanes) * channelLanes }

// vectorAt is the first of the 16 channels in the vector that begins at channel, of n.
func vectorAt(channel, n int) int { return min(channel, n-channelLanes) }

// stride1 is for stride 1: tiles have to save at least half of the products, or lines a third.
func stride1(p *geometry.Shape, side int) bool {
	few := func(h, w int) bool {
		tiles, all := products(p, side, h, w), p.R*p.S*h*w*p.C*p.K
		return 2*tiles <= all || IsLine(p) && 3*tiles <= 2*all
	}
	return (IsLine(p) || p.Stride1() && p.R == p.S && (p.R == 3 || p.R == 5)) && p.PadH <= p.DilationH()*(p.R-1) && p.PadW <= p.DilationW()*(p.S-1) &&
		few(p.OutH(), p.OutW()) && few(p.H, p.W)
}

// stride2 is for the layers that halve an image's sides. The alternative, im2col, is so much
// slower that saving a fifth of the products pays.
func stride2(p *geometry.Shape) bool {
	tiles := kernel.CeilDiv(p.OutH(), outputSide) * kernel.CeilDiv(p.OutW(), outputSide) * padded(p.C) * padded(p.K)
	return p.StrideH == 2 && p.StrideW == 2 && p.R == 3 && p.S == 3 && p.PadH == 1 && p.PadW == 1 && p.DilationH() == 1 && p.DilationW() == 1 &&
		5*halvingPoints*halvingPoints*tiles <= 4*p.R*p.S*p.OutH()*p.OutW()*p.C*p.K
}

// products is how many products the tiles of an image take.
func products(p *geometry.Shape, side, oh, ow int) int {
	tile := tileOf(p, side)
	return tile.points(p).area() * tilesAlong(oh, p.DilationH(), tile.h) * tilesAlong(ow, p.DilationW(), tile.w) * padded(p.C) * padded(p.K)
}

// tilesAlong is how many tiles there are along n outputs, in all phases of a dilation.
func tilesAlong(n, dilation, side int) int {
	return dilation * kernel.CeilDiv(kernel.CeilDiv(n, dilation), side)
}

// picks reports whether a convolution is a product over some of the pixels.
func picks(p *geometry.Shape) bool {
	return p.R == 1 && p.S == 1 && p.StrideH == p.StrideW && p.StrideH > 1 && p.PadH == 0 && p.PadW == 0
}

// call is a convolution of from channels of h×w to to channels of oh×ow.
// The images and filters are float32 or bfloat16, the arithmetic is float32.
type call[T pixel] struct {
	pointShape
	taps, points   size // of a filter
	side           size // of a tile of outputs
	step, over     size // pixels from a tile of the input to the next, and how many more of them it needs, or fewer
	images         int
	from, to       int // channels, in whole vectors
	ins, outs      int // channels of the input and of the output, in a group
	groupCount     int
	first, all     int // the call computes to channels of all, from first on: all of them, but for a member of a Team
	h, w, oh, ow   int
	pad, dilation  size
	across, down   int  // tiles per image, of all phases
	width          int  // vectors in a row of the frame
	outWidth       int  // vectors in a row of output lanes
	rows, most     int  // of tiles in a group, and in one of any part of the images
	stride         int  // vectors from a block of channels to the next: tiles of a group in whole micro-kernels
	packed         bool // data is for multiply, which reads it once for a block of filters
	once           bool // the filters are one block
	fromBlock      int  // channels of a block of filters: at most these, and toBlock
	toBlock        int
	flipped        bool // filters are read backwards, and from and to change places in w
	frame, lanes   []float32
	data, products []float32
	filters        []float32
	tapLanes       []float32
	tmp            []float32
	wide           []float32 // rows of 16 planes of a half type, where no kernel transposes them as they are
}

func newCall[T pixel](all *geometry.Shape, gradInput bool) call[T] {
	one := groupOf(all)
	p := &one
	side := tileOf(p, tileSide[T](p))
	c := call[T]{
		pointShape: pointShapes[kernel.Current()],
		taps:       filterSize(p), points: side.points(p), side: side, step: side, over: size{p.R - 1, p.S - 1},
		images: p.N, ins: p.C, outs: p.K, groupCount: all.GroupCount(), h: p.H, w: p.W, oh: p.OutH(), ow: p.OutW(),
		pad: size{p.PadH, p.PadW}, dilation: size{p.DilationH(), p.DilationW()}, flipped: gradInput,
	}
	if gradInput {
		c.ins, c.outs, c.h, c.w, c.oh, c.ow = p.K, p.C, c.oh, c.ow, p.H, p.W
		c.pad = size{c.dilation.h*(p.R-1) - p.PadH, c.dilation.w*(p.S-1) - p.PadW}
	}
	c.from, c.to = padded(c.ins), padded(c.outs)
	c.all = c.to
	switch {
	case picks(p):
		c.pick(p.StrideH, gradInput)
	case p.StrideH == 2:
		c.halve(gradInput)
	}
	c.across, c.down = tilesAlong(c.ow, c.dilation.w, c.side.w), tilesAlong(c.oh, c.dilation.h, c.side.h)
	c.width = max(c.across*c.step.w+c.dilation.w*c.over.w, c.pad.w+kernel.CeilDiv(c.w, channelLanes)*channelLanes)
	c.outWidth = max(c.across*c.side.w, kernel.CeilDiv(c.ow, channelLanes)*channelLanes)
	c.divide()
	return c
}

// halve is for stride 2: from 9 pixels to 4 outputs, or from 5 gradients to those of
// 8 pixels, of which the first has the middle tap to itself.
func (c *call[T]) halve(gradInput bool) {
	c.points, c.step, c.over = square(halvingPoints), square(2*outputSide), square(1)
	if gradInput {
		c.side, c.step = c.step, c.side
		c.pad = size{}
	}
}

// pick is for 1×1 filters: an output is the one pixel of its tile that it sees, and
// the gradient of that pixel the only one in its tile that is not zero.
func (c *call[T]) pick(stride int, gradInput bool) {
	c.points, c.side, c.step, c.over = square(1), square(1), square(stride), square(1-stride)
	if gradInput {
		c.side, c.step, c.over = square(stride), square(1), size{}
	}
}

// divide chooses the blocks of filters and the groups of tiles.
func (c *call[T]) divide() {
	c.fromBlock, c.toBlock = c.from, c.to
	tiles := winogradGroupElems / (c.squares() * (c.from + c.to))
	if c.once = c.squares()*c.from*c.to <= winogradFilterElems; !c.once {
		c.toBlock = min(c.to, blockTo)
		blocks := kernel.CeilDiv(c.squares()*c.from*c.toBlock, winogradBlockElems)
		c.fromBlock = kernel.CeilDiv(c.from/channelLanes, blocks) * channelLanes
		if tiles = winogradManyTiles; c.squares() >= halvingPoints*halvingPoints {
			tiles /= 2 // larger ones
		}
	}
	c.most = min(c.images*c.down, max(1, tiles/c.across/c.dilation.h)*c.dilation.h)
	c.rows = c.most
	unit := c.tileRows / gcd(c.tileRows, c.across) // whole micro-kernels
	if unit *= c.dilation.h / gcd(unit, c.dilation.h); c.rows > unit && !(c.fewer && c.rows == c.images*c.down) {
		c.rows -= c.rows % unit
	}
	c.stride = c.whole(c.rows * c.across)
}

// groups is the number of groups of tiles.
func (c *call[T]) groups() int { return kernel.CeilDiv(c.images*c.down, c.rows) }

// rowAt is the first row of outputs, or with the step of tiles of pixels the first row of the frame, of a row of tiles. Rows of tiles that differ in their
// phase alone follow each other, and a group has all of them.
func (c *call[T]) rowAt(tiles, step int) int {
	return tiles/c.dilation.h*c.dilation.h*step + tiles%c.dilation.h
}

// group is the rows of tiles of a group.
func (c *call[T]) group(i int) (first, end int) {
	return i * c.rows, min((i+1)*c.rows, c.images*c.down)
}

func gcd(a, b int) int {
	for b > 0 {
		a, b = b, a%b
	}
	return a
}

// squares is the number of points of a tile.
func (c *call[T]) squares() int { return c.points.area() }

// pointElems is the distance between the points of a buffer with blocks of 16
// channels: an odd number of cache lines, so that consecutive points fall into different sets.
func (c *call[T]) pointElems(blocks int) int { return (blocks*c.stride | 1) * channelLanes }

// filterElems is the same for the filters of a block.
func (c *call[T]) filterElems() int {
	return (c.fromBlock*c.toBlock/channelLanes | 1) * channelLanes
}

func (c *call[T]) frameElems() int {
	return max(c.down*c.step.h+c.dilation.h*c.over.h, c.pad.h+c.h) * c.width * channelLanes
}

func (c *call[T]) lanesElems() int { return c.down * c.side.h * c.outWidth * channelLanes }

// tapElems is the room for the taps of 16 by 16 filters, and what a last row of them writes too far.
func (c *call[T]) tapElems() int {
	return channelLanes * (channelLanes*c.taps.area() + channelLanes)
}

const tmpElems = maxPoints * maxPoints * channelLanes

// scratch is enough for any part of the images. products holds the points of all channels of
// dy, or those of a block of outputs.
func (c call[T]) scratch(productBlocks int) int {
	c.stride = c.whole(c.most * c.across)
	return c.blockElems(c.from/channelLanes) + c.blockElems(productBlocks) + c.ownElems()
}

// blockElems is the room for the points of a group in so many blocks of channels.
func (c *call[T]) blockElems(blocks int) int { return c.squares() * c.pointElems(blocks) }

// ownElems is the room that every thread has to itself, whatever it shares.
func (c *call[T]) ownElems() int {
	return c.frameElems() + c.lanesElems() + c.squares()*c.filterElems() + c.tapElems() + tmpElems + c.wideRoom()
}

// DirectionScratch is the number of scratch elements that a direction of float32 images needs.
func DirectionScratch(p *geometry.Shape, d geometry.Direction) int {
	c := newCall[float32](p, d == geometry.ToInput)
	if d == geometry.ToWeight {
		return c.scratch(c.to / channelLanes)
	}
	return c.scratch(c.toBlock / channelLanes)
}

// Scratch is the number of scratch elements that is enough for each direction.
func Scratch[T pixel](p *geometry.Shape) int {
	if one := groupOf(p); !takesTiles(p, tileSide[T](&one)) {
		return 0
	}
	forward, backward := newCall[T](p, false), newCall[T](p, true)
	return max(forward.scratch(forward.to/channelLanes), backward.scratch(backward.toBlock/channelLanes))
}

// reserve cuts the buffers from scratch, and clears the border of the frame.
func (c *call[T]) reserve(productBlocks int, scratch []float32) {
	c.data = cut(&scratch, c.blockElems(c.from/channelLanes))
	c.products = cut(&scratch, c.blockElems(productBlocks))
	c.own(&scratch)
	clear(c.frame)
	if c.squares() == 1 {
		clear(c.lanes)
	}
}

// own cuts the buffers that every thread has to itself.
func (c *call[T]) own(scratch *[]float32) {
	c.frame, c.lanes = cut(scratch, c.frameElems()), cut(scratch, c.lanesElems())
	c.filters, c.tapLanes, c.tmp = cut(scratch, c.squares()*c.filterElems()), cut(scratch, c.tapElems()), cut(scratch, tmpElems)
	c.wide = cut(scratch, c.wideRoom())
}

// cut takes the first n elements of scratch.
func cut(scratch *[]float32, n int) []float32 {
	part := (*scratch)[:n]
	*scratch = (*scratch)[n:]
	return part
}

// TakesBF16 is Takes for images of bfloat16, with tiles as large as pay there.
func TakesBF16(p *geometry.Shape) bool {
	one := groupOf(p)
	return kernel.HasBF16() && takesTiles(p, tileSide[uint16](&one))
}
