package planes

import (
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/cost"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/geometry"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/lines"
)

// What depthwise convolution does.
const (
	products       = cost.Own + iota // vectors of 512 bits multiplied
	planeCalls                       // planes, or those of some images, that a kernel is called for
	frameRows                        // rows that are copied to frames
	frameVectors                     // vectors of these
	splitRows                        // rows of a phase, where a stride of more than two picks elements one by one
	splitElems                       // elements of these
	resultRows                       // rows that are copied to their places
	dots                             // as products, of weight gradients
	dotCalls                         // as planeCalls, of weight gradients
	packed                           // elements of dy that are packed for dense ones
	stored                           // sums of dense ones
	filterCalls                      // filters that are matrices
	spread                           // weights, or their gradients, of pairs of pixels
	acrossVectors                    // elements of planes that these meet, as vectors of 512 bits
	columns                          // columns of vectors that kernels go down
	strides                          // as products, where kernels work on whole planes
	stridePlanes                     // these
	wideProducts                     // as products, of vectors of sixteen lanes that are computed whole
	wideTiles                        // runs of rows of a block of columns that these kernels take at once
	wideSteps                        // rows of y that they step through with stride 2, or of dy
	lineProducts                     // vectors multiplied along rows
	lineLoads                        // vectors that these load and store
	lineRows                         // these rows
	windowProducts                   // as lineProducts, where there are many taps or they are far apart
	windowLoads                      // as lineLoads, there
	windowTiles                      // runs of vectors of these rows that are computed at once, for each group of taps
	thirdRows                        // rows of the filter that vectors of 512 bits of results see with a stride of three columns
	thirdBlocks                      // these vectors, of any size
	thirdPlanes                      // their planes
	fourProducts                     // as products, of planes of 4×4
	fourRuns                         // runs of images of these planes
	far                              // pixels that dilated kernels go down columns of in memory behind all caches
)

// Rates is the cycles of each.
var Rates = cost.Rates{
	kernel.AVX2:     {cost.Steps: 0.969, cost.Calls: 30.7, products: 1.09, planeCalls: 73.4, frameRows: 0.68, frameVectors: 2.16, splitRows: 6.88, splitElems: 3.5, resultRows: 4.03, dots: 1.16, dotCalls: 80.1, packed: 0.42, stored: 2.6, filterCalls: 280, spread: 2.8, acrossVectors: 8, columns: 5.25, strides: 1.51, stridePlanes: 4.01, wideProducts: 0.95, wideTiles: 7, lineProducts: 0.19, lineLoads: 0.76, lineRows: 11, windowProducts: 0.75, windowLoads: 0.8, windowTiles: 1.6, thirdRows: 6, thirdBlocks: 2.9, thirdPlanes: 5.7, far: 1.6, fourProducts: 1.1, fourRuns: 10},
	cost.HalvedAVX2: {cost.Steps: 1.07, cost.Calls: 264, products: 2.75, planeCalls: 100, frameRows: 9.74, frameVectors: 6.4, splitRows: 9, splitElems: 10.3, resultRows: 12.2, dots: 3.55, dotCalls: 124, packed: 0.677, stored: 15.4, filterCalls: 700, spread: 7.98, acrossVectors: 18, columns: 15.2, strides: 5.02, stridePlanes: 12.8, wideProducts: 2.03, wideTiles: 26.2, lineProducts: 0.9, lineLoads: 2.2, lineRows: 30, windowProducts: 2, windowLoads: 2.2, windowTiles: 4.7, thirdRows: 15, thirdBlocks: 7, thirdPlanes: 15, far: 2, fourProducts: 2.2, fourRuns: 20},
	kernel.AVX512:   {cost.Steps: 0.958, cost.Calls: 163, products: 1.1, planeCalls: 40, frameRows: 0.351, frameVectors: 2.19, splitRows: 9, splitElems: 2.76, resultRows: 8, dots: 1.3, dotCalls: 40, packed: 0.482, strides: 1.5, stridePlanes: 6.2, stored: 2.11, filterCalls: 370, spread: 3.2, acrossVectors: 7.6, wideProducts: 0.47, wideTiles: 18.5, wideSteps: 5.37, lineProducts: 0.22, lineLoads: 1.71, lineRows: 9, windowProducts: 0.59, windowLoads: 1.16, windowTiles: 4.4, thirdRows: 4.9, thirdBlocks: 4.1, thirdPlanes: 6},
}

// Terms counts what a direction of p does. See package cost.
func Terms(p *geometry.Shape, d geometry.Direction) (t cost.Terms) {
	if d == geometry.ToWeight && !p.Depthwise() {
		return denseTerms(p)
	}
	if reachesAcross(p) {
		return acrossTerms(p)
	}
	if s, ok := thirdsOf(p, d); ok {
		w := s.Work()
		t[thirdPlanes], t[thirdBlocks], t[thirdRows] = w.Planes, w.Blocks, w.Rows
		return t
	}
	if f, ok := foursOf(p); ok {
		t[fourProducts], t[fourRuns] = f.Work()
		return t
	}
	if l, ok := lines.Of(p); ok {
		return lineTerms(l.Work(d))
	}
	if takesSmall(p, d) {
		return smallTerms(p, d)
	}
	if takesWide(p, d) {
		return wideTerms(p, d)
	}
	if takesWideStrided(p, d) {
		return wideStridedTerms(p, d)
	}
	if takesTiles(p, d) {
		return tiledTerms(p, d)
	}
	if slides(p, d) {
		return slideTerms(p, d)
	}
	if isStrided(p, d) {
		return stridedTerms(p, d)
	}
	return framedTerms(p, d)
}

// lineTerms has what convolutions along rows do.
func lineTerms(w lines.Work) (t cost.Terms) {
	t[lineRows], t[lineProducts], t[lineLoads] = w.Rows, w.Products, w.Loads
	t[windowProducts], t[windowLoads], t[windowTiles] = w.WindowProducts, w.WindowLoads, w.Tiles
	return t
}

// framedTerms counts what a direction does from frames.
func framedTerms(p *geometry.Shape, d geometry.Direction) (t cost.Terms) {
	f, h, w := inputFrame(p, planeElems), p.OutH(), p.OutW()
	taps, rows, width, phases, planes := float64(p.R*p.S), p.H, p.W, 1, float64(p.K)
	if d == geometry.ToInput {
		f = newPlaneGrad(p).planeFrame
		rows, width, planes, phases = h, w, float64(p.C), p.StrideH*p.StrideW
		taps *= float64(p.K/p.C) / float64(phases)
		h, w = kernel.CeilDiv(p.H, p.StrideH), kernel.CeilDiv(p.W, p.StrideW)
	}
	batches := float64(p.N) / float64(f.images)
	copied := float64(p.C) // planes of an image that are copied to frames
	if d == geometry.ToInput {
		copied = float64(p.K)
	}
	t[frameRows] = float64(p.N*rows) * copied
	if p.StrideW > 2 && d != geometry.ToInput {
		t[splitRows], t[splitElems] = float64(p.N*rows*p.StrideW)*copied, float64(p.N*rows*width)*copied
	} else {
		t[frameVectors] = float64(p.N*rows*kernel.CeilDiv(width, narrow)) * copied
	}
	if d == geometry.ToWeight {
		o := newDotsOut(p, &f)
		vectors := float64(o.h*o.blocks*o.lanes) / kernel.Block
		if !o.framed {
			vectors *= float64(f.images)
		} else {
			t[frameRows] += float64(p.N*p.K) * float64(h)
			t[frameVectors] += float64(p.N*p.K) * float64(h*kernel.CeilDiv(w, narrow))
		}
		t[dots] = batches * planes * vectors * taps * waits(o.h)
		t[dotCalls] = batches * planes * float64(p.StrideH*kernel.CeilDiv(p.R, p.StrideH*columnTaps)*kernel.CeilDiv(p.S, 3))
		return t
	}
	out := f.out(h, w)
	vectors := float64(f.images*h*kernel.CeilDiv(w, out.lanes)*out.lanes) / kernel.Block
	if out.long > 0 {
		vectors = float64(out.elems()) / kernel.Block
	}
	t[products] = batches * planes * vectors * taps * float64(phases) * waits(h)
	if out.lanes > narrow {
		t[products] *= wideShare
	}
	t[planeCalls] = batches * planes * float64(phases)
	switch results := float64(p.N) * planes; {
	case d == geometry.ToInput && p.StrideW > 2:
		t[splitRows], t[splitElems] = results*float64(p.H*p.StrideW), results*float64(p.H*p.W)
	case out.long > 0 || d == geometry.ToInput && p.StrideW > 1:
		t[resultRows] = results * float64(h*phases)
	}
	return t
}

// wideShare is how much of a product's time with vectors of eight lanes it takes with those of sixteen.
const wideShare = 0.65

// waits is how much longer products take where so few rows of results are computed at once that their sums wait for each other.
func waits(rows int) float64 { return max(1, 3/float64(rows)) }

// slideTerms counts what a direction does that is computed straight from the image.
func slideTerms(p *geometry.Shape, d geometry.Direction) (t cost.Terms) {
	s := sliderOf(p, d)
	vectors, work := float64(s.images*s.planes*s.blocks), products
	if t[columns] = vectors; d == geometry.ToWeight {
		work = dots
		if p.DilationH() > 1 || p.DilationW() > 1 {
			t[dotCalls] = vectors // their sums begin anew in each column
		}
	}
	dilated := p.DilationH() > 1 || p.DilationW() > 1
	if x, y := p.N*p.C*p.H*p.W, p.N*p.K*p.OutH()*p.OutW(); dilated && x+y >= cost.FarElems {
		t[far] = float64(x)
	}
	t[work] = vectors * float64(s.h*p.R*p.S*s.lanes) / kernel.Block
	return t
}

// denseTerms counts what weight gradients do whose groups have several channels.
func denseTerms(p *geometry.Shape) cost.Terms {
	d := newDense(p)
	batches := float64(p.N) / float64(d.images)
	t := cost.Product(kernel.CeilDiv(d.filters, kernel.Lanes()), d.pixels, d.channels).Times(batches * float64(p.R*p.S))
	t[packed] = batches * float64(d.filters*d.pixels)
	rows, grads := float64(p.N*d.channels*p.H), float64(p.N*d.filters*p.OutH())
	t[frameRows] = rows + grads
	t[frameVectors] = grads * float64(kernel.CeilDiv(p.OutW(), narrow))
	if p.StrideW > 2 {
		t[splitRows], t[splitElems] = rows*float64(p.StrideW), rows*float64(p.W)
	} else {
		t[frameVectors] += rows * float64(kernel.CeilDiv(p.W, narrow))
	}
	t[stored] = float64(d.sums())
	return t.Times(float64(p.GroupCount()))
}
