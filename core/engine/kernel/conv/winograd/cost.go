package winograd

import (
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/cost"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/geometry"
)

// What the tiles of channels do.
const (
	picked        = cost.Own + iota // cycles of the multiply-adds of filters of 1x1, as the core could issue them
	pickedPixels                    // elements of pixels that these gather, and of their results
	pickedWeights                   // of which they make panels
	spreadPixels                    // elements of a gradient of which a stride above 2 reaches few
	halved                          // as picked, of tiles of few channels in weight gradients of a stride of 2
	pointSteps                      // as picked, of other tiles, at their points
	evaluated                       // points of filters, or of their gradients
	tilePoints                      // points of tiles of both sides
	linePixels                      // elements of both sides that lines are made of, in whole vectors
	tapSteps                        // as picked, of weight gradients with channels in lanes
	tapCalls                        // of their micro-kernel
	frameRows                       // rows that are copied to frames
	transposed                      // elements of dy that become vectors of channels
	tapSums                         // elements of their sums
)

// Rates is the cycles of each.
var Rates = cost.Rates{
	kernel.AVX2:     {picked: 0.994, pickedPixels: 0.513, pickedWeights: 15, halved: 1.66, pointSteps: 1.02, evaluated: 0.2, tilePoints: 0.15, linePixels: 0.36, spreadPixels: 1.1},
	cost.HalvedAVX2: {picked: 1.14, pickedPixels: 1.8, pickedWeights: 20, spreadPixels: 2.2, halved: 2.57, pointSteps: 1.66, evaluated: 0.4, tilePoints: 0.3, linePixels: 0.8},
	kernel.AVX512:   {picked: 0.871, pickedPixels: 0.638, pickedWeights: 15.5, halved: 2.77, pointSteps: 1.1, evaluated: 0.16, tilePoints: 0.1, linePixels: 0.4, spreadPixels: 1.1},
}

// Saves reports whether tiles save so many products that nothing else is faster. Filters of 1x1 save none, those of a line fewer than squares do, and weight
// gradients of a stride of 2 too few where one side has no more than a vector of channels. For few tiles it takes longer to
// evaluate the filters at the points.
func Saves(p *geometry.Shape, d geometry.Direction) bool {
	const leastTiles = 64
	one := groupOf(p)
	return !picks(p) && !IsLine(p) && tilesOf(p, d, outputSide) >= leastTiles && !halvesFew(&one, d)
}

// halvesFew is for weight gradients of a stride of 2 and few channels.
func halvesFew(p *geometry.Shape, d geometry.Direction) bool {
	return d == geometry.ToWeight && p.StrideH > 1 && min(p.C, p.K) < 2*channelLanes
}

// tilesOf is how many tiles of side×side outputs all images have.
func tilesOf(p *geometry.Shape, d geometry.Direction, side int) int {
	h, w := p.OutH(), p.OutW()
	if d == geometry.ToInput && p.StrideH == 1 {
		h, w = p.H, p.W
	}
	tile := tileOf(p, side)
	return p.N * tilesAlong(h, p.DilationH(), tile.h) * tilesAlong(w, p.DilationW(), tile.w)
}

// Terms counts what direction d of p does if it saves little. See package cost.
func Terms(p *geometry.Shape, d geometry.Direction) cost.Terms {
	one := groupOf(p)
	return termsOf(&one, d, outputSide).Times(float64(p.GroupCount()))
}

// TermsBF16 is Terms for images of bfloat16.
func TermsBF16(p *geometry.Shape, d geometry.Direction) cost.Terms {
	one := groupOf(p)
	return termsOf(&one, d, tileSide[uint16](&one)).Times(float64(p.GroupCount()))
}

// termsOf is Terms of a group for tiles of side×side outputs.
func termsOf(p *geometry.Shape, d geometry.Direction, side int) (t cost.Terms) {
	if !picks(p) {
		tiles, points, filters := tilesOf(p, d, side), tileOf(p, side).points(p).area(), padded(p.C)*padded(p.K)
		if p.StrideH == 2 {
			points = halvingPoints * halvingPoints
		}
		t[evaluated] = float64(points * filters)
		if halvesFew(p, d) {
			t[halved] = cost.FMAs(float64(tiles*points*filters) / float64(kernel.Lanes()))
			return t
		}
		t[pointSteps] = cost.FMAs(float64(pointShapes[kernel.Current()].whole(tiles)*points*filters) / float64(kernel.Lanes()))
		t[tilePoints] = float64(tiles * points * (padded(p.C) + padded(p.K)))
		if IsLine(p) {
			t[linePixels] = float64(p.N * (p.H*padded(p.W)*padded(p.C) + p.OutH()*padded(p.OutW())*padded(p.K)))
		}
		return t
	}
	pixels := float64(p.N * p.OutH() * p.OutW())
	from, to := padded(p.C), padded(p.K)
	t[picked] = cost.FMAs(pixels * float64(from) * float64(to) / float64(kernel.Lanes()))
	t[pickedPixels] = pixels * float64(from+to)
	if p.StrideW > 2 {
		t[pickedPixels] *= 1.8 // each lies in a vector, or even a line, of its own
	}
	t[pickedWeights] = float64(from * to)
	if d == geometry.ToInput && p.StrideW > 2 {
		t[spreadPixels] = float64(p.N * p.H * p.W * from)
	}
	return t
}

// LanesRates is the cycles of what LanesGradWeight does.
var LanesRates = cost.Rates{
	kernel.AVX2:     {tapSteps: 0.94, tapCalls: 12.4, frameRows: 5.51, transposed: 0.353, tapSums: 1.7},
	cost.HalvedAVX2: {tapSteps: 2.07, tapCalls: 86.6, frameRows: 8, transposed: 1.44, tapSums: 3},
	kernel.AVX512:   {tapSteps: 0.924, tapCalls: 17.4, frameRows: 12.6, transposed: 0.362, tapSums: 1.7},
}

// LanesTerms counts what LanesGradWeight does.
func LanesTerms(p *geometry.Shape) (t cost.Terms) {
	c := newLanesCall(p)
	perRow, calls := 0.0, 0 // of taps
	for s := 0; s < p.S; calls++ {
		taps, vectors := tapsAtOnce(p.S-s), 2*c.blocks
		perRow += max(float64(taps*vectors)/2, float64(taps+vectors)/2, 4) // vectors of eight lanes, two at a time
		s += taps
	}
	passes := float64(p.K / (c.blocks * channelLanes) * p.C * p.R)
	rows := float64(p.N * p.OutH())
	t[tapSteps] = passes * rows * float64(c.width) * perRow
	t[tapCalls] = passes * float64(p.N*kernel.CeilDiv(p.OutH(), c.rows)*calls)
	t[frameRows] = float64(p.N * p.C * p.H)
	t[transposed] = rows * float64(c.width*p.K)
	t[tapSums] = float64(p.K * p.PatchSize())
	return t
}
