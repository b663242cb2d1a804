package conv

import (
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/gemm"
)

// The model of what a convolution costs, in cycles of a core that issues 512 bits of
// multiply-adds and two loads in each. It decides between algorithms only, so what
// counts is their ratio: `trainctl bench kernels --algorithms` measures how far its
// choice is from the best. Constants are fitted to such measurements.

// Cycles of things that are not multiply-adds.
const (
	tileCalls  = 22.0 // a call of the micro-kernel, and storing its tile
	dotCalls   = 45.0 // a call of that of weight gradients, and adding up its lanes
	dotSum     = 6.0  // one such sum
	dotLosses  = 1.3  // of a step of it
	dotMasks   = 1.4  // of its masked loads with AVX2
	rowCopies  = 12.0 // copying a short row of an image
	elemCopies = 1.1  // copying an element that lies apart from the next
	weightCopy = 1.2  // packing a weight one by one
	colCopies  = 0.25 // writing an element of the matrix of columns, and reading it in Gemm
	gemmLosses = 1.2  // of a matrix product, in excess of its multiply-adds
)

// fmas is the cycles of n multiply-adds of vectors.
func fmas(n float64) float64 { return n * float64(kernel.Lanes()) / float64(kernel.Block) }

// tileStep is the cycles of a tile of the micro-kernel for one product of each sum: a
// load of each vector, a broadcast for each row, and sums that wait for those before.
func tileStep(rows int) float64 {
	return max(fmas(float64(2*rows)), float64(rows+3)/2, 4)
}

// tileCost is the cycles of out rows of vectors, of in products each.
func tileCost(vectors, in, out int) float64 {
	most := gemm.TileShapes[kernel.Current()].Rows
	height, blocks := gemm.EvenRows(out, most), kernel.CeilDiv(in, gemm.BlockK)
	panels := float64(out) / float64(height)
	return float64(kernel.CeilDiv(vectors, 2)) * panels * (tileStep(height)*float64(in) + tileCalls*float64(blocks))
}

// productCost is the cycles of a matrix product by Gemm.
func productCost(m, n, k int) float64 {
	lanes := kernel.Lanes()
	padded := kernel.CeilDiv(n, lanes) * lanes
	return gemmLosses*float64(m)*float64(padded)*float64(k)/kernel.Block + weightCopy/4*(float64(m)+float64(n))*float64(k) + float64(m)*float64(n)
}

func (p *Shape) cost(a Algorithm, d Direction) float64 {
	switch a {
	case Winograd:
		return p.winogradCost()
	case Direct:
		return p.directCost(d)
	case Product:
		return p.productCost(d)
	case Planes:
		return p.planesCost(d)
	case Lanes:
		return p.lanesCost()
	}
	return p.columnsCost(d)
}

// winogradCost is that of a way that is taken wherever its tiles save products, but
// for the filters of 1×1, where it saves none.
func (p *Shape) winogradCost() float64 {
	if !p.picks() {
		return 1
	}
	pixels := float64(p.N * p.OutH() * p.OutW())
	return 1.1 * pixels * float64(p.C) * float64(p.K) / kernel.Block
}

func (p *Shape) directCost(d Direction) float64 {
	g, kg, oh, ow := p.groups(), p.K/p.groups(), p.OutH(), p.OutW()
	f := p.inputFrame()
	frames := func(f frame) float64 { return float64(f.channels*f.h) * rowCopies }
	run := func(f frame, out, oh, ow int) float64 {
		lanes := kernel.Lanes()
		vectors := oh * kernel.CeilDiv(ow, lanes)
		c := 0.0
		if n := f.spread(out, oh, ow); n > 0 {
			vectors = kernel.CeilDiv(n/out, lanes)
			c = float64(out*oh) * rowCopies
		}
		taps := f.channels * p.R * p.S
		c += frames(f) + tileCost(vectors, taps, out)
		return float64(g) * (float64(p.N)*c + weightCopy*float64(taps*out))
	}
	switch d {
	case ToOutput:
		return run(f, kg, oh, ow)
	case ToInput:
		return run(p.gradFrame(), p.C/g, p.H, p.W)
	}
	s := dotShapes[kernel.Current()]
	rows := s.dotRows
	if kg < rows {
		rows = 1
	}
	steps := float64(p.N * oh * kernel.CeilDiv(ow, kernel.Lanes()))
	calls := float64(kernel.CeilDiv(kg, rows) * kernel.CeilDiv(p.patch(), s.dotCols))
	step := dotLosses * max(fmas(float64(rows*s.dotCols)), float64(s.dotRows+s.dotCols+2)/2, 4)
	if kernel.Current() == kernel.AVX2 {
		step *= dotMasks
	}
	batches := float64(kernel.CeilDiv(p.N, p.gradBatch()))
	return float64(g) * (float64(p.N)*frames(f) + calls*(steps*step+batches*(dotCalls+dotSum*float64(rows*s.dotCols))))
}

func (p *Shape) productCost(d Direction) float64 {
	m, g, kg := p.patches(), p.groups(), p.K/p.groups()
	c := 0.0
	if !m.inPlace {
		c = elemCopies * float64(p.N*m.image())
		if p.StrideW > p.S {
			c *= 2 // cache lines of which little is looked at
		}
	}
	in, out := m.rows, kg
	if d == ToInput {
		in, out = out, in
	}
	switch {
	case m.pixels == 1:
		return c + float64(g)*productCost(p.N, out, in)
	case d != ToWeight:
		vectors := p.N * kernel.CeilDiv(m.pixels, kernel.Lanes())
		return c + float64(g)*(tileCost(vectors, in, out)+weightCopy/4*float64(in*out))
	}
	deep := m.deep()
	if deep.line > 0 {
		c += float64(g) * rowCopies / 4 * float64(p.N*(in+out)*kernel.CeilDiv(m.pixels, kernel.Lanes()))
	}
	return c + float64(g*p.N)/float64(deep.images)*productCost(kg, m.rows, deep.images*m.pixels)
}

func (p *Shape) columnsCost(d Direction) float64 {
	g, kg, cg := p.groups(), p.K/p.groups(), p.C/p.groups()
	pixels, taps, in, out := p.N*p.OutH()*p.OutW(), p.patch(), cg, kg
	if d == ToInput {
		in, out = kg, cg
		pixels, taps = p.N*p.H*p.W, max(1, kg*p.R*p.S/(p.StrideH*p.StrideW))
	}
	rows := float64(in) * float64(p.N*(p.H+p.OutH()))
	c := rows*rowCopies + float64(pixels)*(colCopies*float64(taps)+float64(out)*0.3)
	if kernel.Current() != kernel.AVX512 {
		c += float64(pixels) * colCopies * float64(taps)
	}
	if p.StrideW > 2 && d != ToInput {
		c += 3 * elemCopies * float64(p.N*cg*p.H*p.W)
	}
	return float64(g) * (c + productCost(out, pixels, taps))
}

// Cycles of depthwise convolution.
const (
	planeCalls = 30.0 // a call of a micro-kernel
	planeRow   = 3.0  // copying a row
)

// laneCopies is the cycles of transposing an element of dy to vectors of channels.
const laneCopies = 0.3

func (p *Shape) lanesCost() float64 {
	c := newLanesCall(p)
	perRow, calls := 0.0, 0 // of taps
	for s := 0; s < p.S; calls++ {
		taps, vectors := tapsAtOnce(p.S-s), 2*c.blocks
		perRow += max(fmas(float64(taps*vectors)), float64(taps+vectors)/2, 4)
		s += taps
	}
	steps := float64(p.N * p.OutH() * c.width)
	bands := float64(p.N * kernel.CeilDiv(p.OutH(), c.rows) * calls)
	passes := float64(p.K / (c.blocks * channelLanes) * p.C * p.R)
	return float64(p.N*p.C*p.H)*rowCopies + laneCopies*steps*float64(p.K) + passes*(steps*perRow+tileCalls*bands)
}

func (p *Shape) planesCost(d Direction) float64 {
	f := p.planeFrame()
	out := newPlaneOut(p.OutH(), p.OutW(), f.width)
	channels, taps := p.C, float64(p.R*p.S)
	moves := float64(p.H) * planeRow * float64(kernel.CeilDiv(p.W, 8))
	planes, calls := p.K, 1.0
	if d == ToInput {
		g := p.planeGrad()
		f, out, channels, planes = g.planeFrame, g.out(p.H), p.K, p.C
		taps *= float64(p.K/p.C) / float64(p.StrideH)
		calls = float64(p.StrideH * p.StrideW)
	}
	if f.stepW > 2 || d == ToInput && p.StrideW > 2 {
		moves += elemCopies * float64(p.H*p.W)
	}
	vectors := float64(out.elems()) / float64(kernel.Block) // of 512 bits
	if out.long > 0 || d == ToInput && p.StrideW > 1 {
		moves += float64(out.h) * planeRow * float64(kernel.CeilDiv(out.w, 8))
	}
	work := 1.1 * vectors * taps
	if d == ToWeight {
		calls = float64(kernel.CeilDiv(p.R*p.S, planeViews))
		work = 1.1 * vectors * calls * planeViews
	}
	batch := float64(f.batch(p.N, 1))
	return float64(p.N)*(float64(channels)*moves+float64(planes)*(work+calls*planeCalls/batch)) + planeCalls*float64(p.N)/batch*float64(planes+channels)
}
