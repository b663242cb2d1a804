package direct

import (
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/cost"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/geometry"
	"github.com/trainctl/trainctl/core/engine/kernel/gemm"
)

// What the algorithm does beside tiles.
const (
	frameRows     = cost.Own + iota // rows that are copied to frames
	frameVectors                    // vectors of these
	splitRows                       // rows of a phase, where a stride of more than two picks elements one by one
	splitElems                      // elements of these
	joinedRows                      // rows of the input gradient that two phases make
	unseenVectors                   // vectors of the input gradient that no tap sees: zeros
	gatheredRows                    // rows that are copied together from spread planes
	packedTaps                      // weights that are packed, or turned
	dotSteps                        // cycles of the multiply-adds of weight gradients, as the core could issue them
	dotMasked                       // of these, in vectors that are not whole
	dotCalls                        // calls of their micro-kernel
	dotSums                         // sums that these give
	scattered                       // vectors of planes that lie in many pages
	thin                            // vectors of results that are stored faster than sums of so few products would take
	viewSteps                       // cycles of the multiply-adds of weight gradients by views, as the core could issue them
	viewCalls                       // calls of their micro-kernel
	viewImages                      // images of these calls
	viewRows                        // rows that are copied to views
	viewCopies                      // vectors of these
	filterSteps                     // cycles of the multiply-adds with filters in the lanes, as the core could issue them
	filterTiles                     // tiles of these
	filterTurned                    // vectors of results, or of dy, that are transposed
	filterRuns                      // images of these, or parts
	filterPlaces                    // places of pixels and taps that are noted
	streamed                        // pixels behind the L2 cache that weight gradients of one tap wait for, as each is in few products
	streamedFar                     // pixels behind all caches
)

// Rates is the cycles of each.
var Rates = cost.Rates{
	kernel.AVX2:     {cost.Steps: 0.914, cost.Calls: 19.7, frameVectors: 3.67, splitRows: 5.88, splitElems: 3.57, joinedRows: 6.37, unseenVectors: 1.5, gatheredRows: 3.49, packedTaps: 4.6, dotSteps: 1.2, dotMasked: 0.531, dotCalls: 60.9, scattered: 2, thin: 3, filterSteps: 0.96, filterTiles: 22, filterTurned: 2, filterRuns: 53, filterPlaces: 12.3, streamed: 0.08, streamedFar: 0.64, cost.Copied: 0.6},
	cost.HalvedAVX2: {cost.Steps: 1.06, cost.Calls: 110, frameRows: 0.145, frameVectors: 30.6, splitRows: 23.2, splitElems: 6.91, joinedRows: 17.2, unseenVectors: 3, gatheredRows: 7.52, packedTaps: 14.6, dotSteps: 1.22, dotMasked: 1.08, dotCalls: 137, scattered: 1.7, thin: 2.92, filterSteps: 0.977, filterTiles: 115, filterTurned: 10.1, filterRuns: 88.1, filterPlaces: 27, streamed: 0.335, streamedFar: 0.335, cost.Copied: 0.6},
	kernel.AVX512:   {cost.Steps: 0.942, cost.Calls: 45, frameVectors: 4.71, splitRows: 6.36, splitElems: 3.41, joinedRows: 6.05, unseenVectors: 4, gatheredRows: 2.14, packedTaps: 4.42, dotSteps: 1.15, dotMasked: 0.386, dotSums: 6.77, scattered: 0.478, thin: 3.3, viewSteps: 0.832, viewCalls: 198, viewImages: 11.3, viewRows: 1.38, viewCopies: 2.14, filterSteps: 0.933, filterTiles: 31.9, filterTurned: 3.28, filterRuns: 71.8, filterPlaces: 13.9, streamed: 0.2, streamedFar: 0.2, cost.Copied: 0.7},
}

// Terms counts what a direction of p does. See package cost.
func Terms(p *geometry.Shape, d geometry.Direction) (t cost.Terms) {
	g, kg := p.GroupCount(), p.K/p.GroupCount()
	switch {
	case d == geometry.ToInput:
		t = gradTerms(p)
	case takesFilters(p, d):
		t = filterTerms(p, d)
	default:
		t = otherTerms(p, d)
	}
	switch {
	case d == geometry.ToWeight && p.R*p.S == 1:
		t[streamed], t[streamedFar] = streams(p)
	case d != geometry.ToWeight && t[filterSteps] == 0:
		t[packedTaps] = float64(p.PatchSize() * kg)
	}
	return t.Times(float64(g))
}

// otherTerms counts the output, or the gradient of the weights, of a group with pixels in the lanes.
func otherTerms(p *geometry.Shape, d geometry.Direction) cost.Terms {
	if d == geometry.ToOutput {
		if takesForwardViews(p) {
			return viewForwardTerms(p)
		}
		return forwardTerms(p)
	}
	if q, ok := mirror(p); ok {
		return mirroredTerms(&q)
	}
	return ownWeightTerms(p)
}

// filterTerms counts a direction with filters in the lanes.
func filterTerms(p *geometry.Shape, d geometry.Direction) (t cost.Terms) {
	f, pixels := newFilters(p, d), p.OutH()*p.OutW()
	taps, units := p.PatchSize(), float64(kernel.CeilDiv(p.N, f.images)*kernel.CeilDiv(p.OutH(), f.rows))
	rows, count := float64(p.N*pixels)/units, float64(taps)
	if d == geometry.ToWeight {
		rows, count = count, rows
	}
	f.eachPanel(func(u panel) {
		tiles, step := filterStep(u, int(rows))
		t[filterSteps] += units * count * step
		t[filterTiles] += units * tiles
		t[filterTurned] += float64(p.N*pixels*u.vectors) * float64(u.lanes) / float64(kernel.Lanes())
		t[filterRuns] += float64(p.N * u.vectors * kernel.CeilDiv(p.OutH(), f.rows))
	})
	if d == geometry.ToOutput { // others' weights are packed one by one
		t[packedTaps] = float64(taps*p.K) / 3
	}
	t[filterPlaces] = float64(min(p.N*pixels, f.pixels()) + taps)
	if f.copied {
		frames := f.frame.H * p.C * p.N
		t[frameRows], t[frameVectors] = float64(frames), float64(frames*kernel.CeilDiv(p.W, kernel.Block))
	}
	return t
}

// filterStep is the tiles of a panel with so many rows, and the cycles that a step of all of them takes: a tile loads its vectors, a value for each
// row and a place, and its sums wait four cycles for those before.
func filterStep(u panel, rows int) (tiles, step float64) {
	h := tilingOf(rows, u.vectors)
	cycles := func(tiles, rows int) float64 {
		n, v := float64(rows), float64(u.vectors)
		return float64(tiles) * max(cost.FMAsOf(u.lanes, n*v), (n+v+1)/2, 4)
	}
	return float64(h.highTiles + h.lowTiles), cycles(h.highTiles, h.high) + cycles(h.lowTiles, h.high-2)
}

// streams is the pixels of a group that lie behind the L2 cache, or behind all caches. Algorithms are chosen for so few
// images that batches may have many times as many.
func streams(p *geometry.Shape) (near, far float64) {
	n := p.N * p.OutH() * (p.C*p.W + p.K*p.OutW()) // a row that no pixel sees is not read
	switch each := float64(n) / float64(p.GroupCount()); {
	case n >= cost.SharedElems:
		return 0, each
	case n > cost.CachedElems:
		return each, 0
	}
	return 0, 0
}

// forwardTerms counts the images of a group.
func forwardTerms(p *geometry.Shape) cost.Terms {
	f, seen := p.InputFrame(), 0
	for r := range p.R {
		seen += f.Seeing(p.OutH(), r*p.DilationH())
	}
	t := tileTerms(p.R*p.S, share(seen, p.R*p.OutH()), &f, p.K/p.GroupCount(), p.OutH(), p.OutW())
	frameTerms(&t, &f, p.StrideW)
	if kernel.Lanes() == kernel.Block && p.K <= few*p.GroupCount() {
		t[cost.Steps] *= 1.35
	}
	return t.Times(float64(p.N))
}

// few is the outputs of a group whose products take less time than loading what they multiply, most of which lies in two cache lines if vectors have
// sixteen lanes.
const few = 2

// viewForwardTerms is forwardTerms by views.
func viewForwardTerms(p *geometry.Shape) cost.Terms {
	v, out, plane := p.InputViews(), p.K/p.GroupCount(), p.OutH()*p.OutW()
	vectors := p.N * kernel.CeilDiv(plane, kernel.Block)
	t := tilesOf(kernel.Block, vectors, p.PatchSize(), out)
	if cost.Scatters(out, plane, v.Channels, v.Elems()/v.Channels) {
		t[scattered] = float64(vectors * (out + v.Channels))
	}
	copyTerms(&t, p, &v)
	return t
}

// copyTerms counts the copies of images to views. An image, and a call for a column of taps, take as long as some rows.
func copyTerms(t *cost.Terms, p *geometry.Shape, v *geometry.Views) {
	const image, call = 10, 6
	rows, vectors := v.Copies()
	t[viewRows] = float64(p.N * (rows + image + call*p.S*p.StrideH))
	t[viewCopies] = float64(p.N * vectors)
}

// tilesOf is cost.TilesOf. The products of three or four rows take longer because sums wait for the ones before; fewer rows are
// computed several tiles at a time, if there are as many, and wait less than alone.
func tilesOf(lanes, vectors, in, out int) cost.Terms {
	const several = 4 // vectors
	t := cost.TilesOf(lanes, vectors, in, out)
	switch rows := gemm.EvenRows(out, gemm.TileOf(lanes).Rows); {
	case rows > 4 || rows < 3 && vectors < several:
	case rows > 2:
		t[cost.Steps] *= 1.25
	case rows == 2:
		t[cost.Steps] *= 0.62
	default:
		t[cost.Steps] *= 0.5
	}
	return t
}

// share is a part of a whole that may be 0.
func share(part, whole int) float64 { return float64(part) / float64(max(1, whole)) }

// tileTerms counts the tiles of out planes of oh×ow, whose every element sees taps of each channel. A share of the
// rows of taps sees more than padding from a row of pixels.
func tileTerms(taps int, seen float64, f *geometry.Frame, out, oh, ow int) cost.Terms {
	lanes, in := lanesOf(taps, f, out, oh, ow), f.Channels*taps
	vectors, gathered := vectorsOf(lanes, f, out, oh, ow), 0
	t := tilesOf(lanes, vectors, in, out)
	if out <= 2 && ow%lanes > 0 && lanes < kernel.Block { // vectors that are not whole end such runs of tiles
		t[cost.Steps] *= 1.4
	}
	if spread(lanes, f, out, oh, ow) > 0 {
		gathered = out * oh
	} else {
		t[cost.Steps] *= seen
	}
	const hides = 4 // products
	t[thin] = float64(vectors*out*max(0, hides-in)) / (hides - 1)
	if cost.Scatters(out, oh*ow, f.Channels, f.Plane) {
		t[scattered] = float64(vectors * (out + f.Channels))
	}
	t[gatheredRows] = float64(gathered)
	return t
}

// gradTerms counts the phases of the input gradient.
func gradTerms(p *geometry.Shape) (t cost.Terms) {
	o := newGradOut(p)
	for i := range p.StrideH * p.StrideW {
		h := geometry.NewPhase(i/p.StrideW, p.H, p.OutH(), p.StrideH, p.PadH, p.R, p.DilationH())
		w := geometry.NewPhase(i%p.StrideW, p.W, p.OutW(), p.StrideW, p.PadW, p.S, p.DilationW())
		if h.N*w.N == 0 || h.Pixels == 0 {
			t[unseenVectors] += float64(o.out * h.Pixels * kernel.CeilDiv(o.cols, kernel.Block))
			continue
		}
		top, _ := o.frame.Corner()
		seen := 0
		for r := range h.N {
			seen += o.frame.Seeing(h.Pixels, top+h.Axis.First+r*h.Axis.Step)
		}
		u := tileTerms(h.N*w.N, share(seen, h.N*h.Pixels), &o.frame, o.out, h.Pixels, o.cols)
		if o.joins {
			u[gatheredRows] = 0
		}
		t.Add(u)
	}
	switch rows := float64(o.out * p.H); {
	case p.StrideW > 2:
		t[splitRows], t[splitElems] = rows*float64(p.StrideW), rows*float64(p.W)
	case o.joins:
		t[joinedRows] = rows
	}
	frameTerms(&t, &o.frame, 1)
	return t.Times(float64(p.N))
}

func frameTerms(t *cost.Terms, f *geometry.Frame, stride int) {
	rows := f.Channels * f.H
	t[frameRows] = float64(rows)
	if stride > 2 {
		t[splitRows], t[splitElems] = float64(rows*stride), float64(rows*f.W)
	} else {
		t[frameVectors] = float64(rows * kernel.CeilDiv(f.W, kernel.Block))
	}
}

// viewTerms counts the weight gradient of a group by views.
func viewTerms(p *geometry.Shape) (t cost.Terms) {
	plane, filters := p.OutH()*p.OutW(), p.K/p.GroupCount()
	sums, tiles := viewSumsOf(kernel.Block, filters, p.PatchSize())
	t[viewSteps] = cost.FMAs(float64(p.N * kernel.CeilDiv(plane, kernel.Block) * sums))
	t[viewCalls] = float64(kernel.CeilDiv(p.N, max(1, viewVectors/(plane/kernel.Block+1))) * viewParts(plane) * tiles)
	t[viewImages] = float64(p.N * viewParts(plane) * tiles)
	v := p.InputViews()
	copyTerms(&t, p, &v)
	return t
}

// ownWeightTerms counts the weight gradient of a group, of p itself.
func ownWeightTerms(p *geometry.Shape) cost.Terms {
	if takesViews(p) {
		return viewTerms(p)
	}
	return dotTerms(p)
}

// mirroredTerms is ownWeightTerms for the weight gradient by q.
func mirroredTerms(q *geometry.Shape) cost.Terms {
	t := ownWeightTerms(q)
	t[packedTaps] = float64(mirroredElems(q) / q.GroupCount())
	return t
}

// dotTerms counts the weight gradient of a group.
func dotTerms(p *geometry.Shape) (t cost.Terms) {
	filters := p.K / p.GroupCount()
	s, f := dotShapeOf(p, filters), p.InputFrame()
	frameTerms(&t, &f, p.StrideW)
	t = t.Times(float64(p.N))
	tiles := s.tiles(filters, p.PatchSize())
	step := tiles * s.step()
	t[dotSteps] = float64(p.N) * s.steps(p) * step
	if p.OutW()%s.lanes > 0 {
		t[dotMasked] = float64(p.N*p.OutH()) * step
	}
	t[dotCalls] = tiles * float64(kernel.CeilDiv(p.N, gradBatch(p)))
	t[dotSums] = t[dotCalls] * float64(s.rows*s.cols)
	return t
}

// What convolutions of pairs of bfloat16 do beside the tiles' multiply-adds and calls.
const (
	pairedRows    = cost.Own + iota // rows that are copied to frames of pairs
	pairedVectors                   // vectors of these
	pairedWeights                   // pairs of weights that are packed one by one
	movedRows                       // rows of results that are copied to where they belong
	pairDotSteps                    // vectors of pixels, times the calls that read them
	pairDotCalls                    // calls of the micro-kernel of weight gradients
	pixelProducts                   // products of matrices for weight gradients of 1×1
	packedPairs                     // vectors that these pack
)

// PairRates is the cycles of each. They were fitted to times on a Zen 5.
var PairRates = cost.Rates{
	kernel.AVX512: {cost.Steps: 0.899, cost.Calls: 41.1, pairedRows: 3.7, pairedVectors: 4, pairedWeights: 15.6, movedRows: 9.68, pairDotSteps: 18.1, pairDotCalls: 46.1, pixelProducts: 286, packedPairs: 5.14},
}

// PairTerms counts what a direction of p does by pairs of bfloat16, if it takes it.
func PairTerms(p *geometry.Shape, d geometry.Direction) (t cost.Terms) {
	switch {
	case d != geometry.ToWeight:
		c := newCallBF16(p, d == geometry.ToInput)
		t = c.terms()
	case pointwise(p):
		t = pixelTerms(p)
	default:
		t = pairWeightTerms(p)
	}
	return t
}

// terms counts a convolution of all images.
func (c *callBF16) terms() (t cost.Terms) {
	oh, ow, n := c.oh, c.ow, float64(c.p.N)
	if m := c.spreadElems(); m > 0 {
		t[movedRows] = n * float64(c.out*oh)
		oh, ow = 1, m/c.out
	}
	taps := pairTaps(&c.p, c.from)
	t.Add(cost.Tiles(oh*kernel.CeilDiv(ow, c.Lanes), taps, c.out).Times(float64(kernel.CeilDiv(c.p.N, c.together))))
	t[pairedRows] = n * float64(c.Channels*c.H)
	t[pairedVectors] = t[pairedRows] * float64(kernel.CeilDiv(c.W, kernel.Block))
	if c.p.R*c.p.S > 1 {
		t[pairedWeights] = float64(taps * c.out)
	}
	if c.some() {
		t[movedRows] += n * float64(c.shape.C*c.shape.OutH())
	}
	return t
}

// pixelTerms counts weight gradients of 1×1.
func pixelTerms(p *geometry.Shape) cost.Terms {
	m := newPixelProduct(p)
	rows, columns := m.filters, m.inputs
	if m.turned {
		rows, columns = columns, rows
	}
	t := cost.Product(kernel.CeilDiv(columns, kernel.Block), kernel.CeilDiv(m.pixels, 2), rows)
	t[packedPairs] = float64((rows + columns) * kernel.CeilDiv(m.pixels, kernel.PairLanes))
	t[pixelProducts] = 1
	if m.some() {
		t[movedRows] = float64(p.C * p.OutH())
	}
	return t.Times(float64(p.N))
}

// pairWeightTerms counts weight gradients of larger filters.
func pairWeightTerms(p *geometry.Shape) (t cost.Terms) {
	w := newWeightCallBF16(p)
	calls := float64(kernel.CeilDiv(p.K, maxDotRows) * kernel.CeilDiv(p.PatchSize(), dotColsBF16))
	t[pairDotCalls] = calls * float64(kernel.CeilDiv(p.N, w.batch()))
	t[pairDotSteps] = calls * float64(p.N*w.stepsOf())
	t[movedRows] = float64(p.N * p.C * p.H)
	return t
}
