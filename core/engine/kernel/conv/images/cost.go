package images

import (
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/cost"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/geometry"
	"github.com/trainctl/trainctl/core/engine/kernel/gemm"
)

// What the algorithm does beside the products and sums of tiles.
const (
	loaded       = cost.Own + iota // vectors of the input's pixels that are transposed
	stored                         // vectors of the output's
	packed                         // weights
	pieces                         // runs of pixels and panels of weights that are transposed at a time
	turned                         // weights whose gradients are transposed
	directions                     // calls for a group
	dotSteps                       // cycles of the multiply-adds of weight gradients of few channels, as the core could issue them
	dotCalls                       // calls of their micro-kernel
	dotSums                        // sums that these give
	noted                          // elements of tables of these, for all groups
	apart                          // vectors or values of x, in weight gradients, that lie a line of the cache or more from those before
	streamed                       // vectors of pixels that are read and written as they lie
	turnedFar                      // of those whose gradients are transposed, where they are many
	scattered                      // steps whose weights lie so far from those before that few places of the L1 cache hold them
	viewRuns                       // runs of pixels that are copied, as their taps see them, for outputs in the lanes
	viewed                         // elements of them
	picked                         // vectors from which lanes of those with strides are picked
	placed                         // vectors of sums that are moved
	phases                         // of images
	packedPixels                   // of both sides of weight gradients
)

// scatters is the distance in bytes from which weights are scattered.
const scatters = 1 << 10

// Rates is the cycles of each.
var Rates = cost.Rates{
	kernel.AVX2:     {cost.Steps: 1.04, cost.Stores: 1.01, loaded: 2.49, stored: 3.25, packed: 0.288, pieces: 76.8, turned: 0.899, dotSteps: 1.25, dotCalls: 64, noted: 0.567, apart: 0.0202, streamed: 0.0745, scattered: 1.33, turnedFar: 1, viewRuns: 32, viewed: 0.4, picked: 2.2, placed: 8, phases: 350, packedPixels: 0.4, cost.Copied: 0.6},
	cost.HalvedAVX2: {cost.Steps: 1.37, cost.Stores: 0.888, loaded: 6.2, stored: 9.14, packed: 1.05, pieces: 106, turned: 2.62, dotSteps: 1.45, dotCalls: 1.2e+03, noted: 4.1, apart: 0.03, streamed: 1.02, turnedFar: 6.94, scattered: 1.73, viewRuns: 40, viewed: 0.11, picked: 20.4, placed: 10, phases: 400, packedPixels: 1.05, cost.Copied: 0.6},
	kernel.AVX512:   {cost.Steps: 1.06, cost.Stores: 1.96, loaded: 4, stored: 5.25, packed: 0.47, pieces: 50.1, turned: 0.877, dotSteps: 1.25, dotCalls: 266, dotSums: 11, apart: 0.192, streamed: 0.0208, turnedFar: 0.6, viewRuns: 30, viewed: 0.45, picked: 4.2, placed: 9, phases: 350, packedPixels: 0.259, cost.Copied: 1.5},
}

// Terms counts what a direction of p does. See package cost.
func Terms(p *geometry.Shape, d geometry.Direction) (t cost.Terms) {
	if d == geometry.ToWeight {
		weightTerms(p, &t)
	} else {
		c := newPass(p, d)
		if c.takesOutputs() {
			c.countOutputs(&t)
		} else {
			c.count(&t)
		}
	}
	t[directions]++
	return t.Times(float64(p.GroupCount()))
}

// weightTerms adds what the gradient of a group's weights takes.
func weightTerms(p *geometry.Shape, t *cost.Terms) {
	whole, rest := *p, *p
	if takesFew(p) {
		rest.N %= kernel.Lanes()
	}
	if whole.N -= rest.N; whole.N > 0 {
		c := newFew(&whole)
		c.count(t)
	}
	if rest.N > 0 {
		g := newWeights(&rest)
		g.count(t)
	}
}

// count adds what the gradient of a group's weights takes with images in the lanes.
func (c *few) count(t *cost.Terms) {
	vectors, blocks := float64(c.p.N/kernel.Lanes()), float64(kernel.CeilDiv(c.p.N, c.most))
	tiles, step, sums := c.Cost()
	taps, pixels := c.counts()
	t[dotSteps] += step * vectors * float64(pixels)
	t[dotCalls] += tiles * blocks * float64(taps)
	if c.Keeps() {
		blocks = 1
	}
	t[dotSums] += sums * blocks * float64(taps)
	t[loaded] += vectors * float64(c.x.pixels()*c.x.channels+c.dy.pixels()*c.dy.channels)
	t[noted] += float64(taps+c.StepElems(pixels*c.most/kernel.Lanes())) / float64(c.p.GroupCount())
}

// count adds what computing a group's planes takes.
func (c *pass) count(t *cost.Terms) {
	lanes := kernel.Lanes()
	vectors := float64(kernel.CeilDiv(c.p.N, narrow)*narrow) / float64(lanes) // narrow ones make pairs
	height := c.height()
	panels := float64(kernel.CeilDiv(c.outs, height))
	if c.seesOnePixel() {
		c.countPixels(t, height, panels)
		return
	}
	c.phases(func(h, w geometry.Phase) {
		products := seenTaps(&h.Axis) * seenTaps(&w.Axis) * float64(c.channels)
		chunks := float64(kernel.CeilDiv(c.channels, max(1, gemm.BlockK/(h.N*w.N))))
		tiles := vectors * float64(h.Pixels*w.Pixels) * chunks
		t[cost.Steps] += c.steps(&h, &w) * float64(c.channels*c.outs) / float64(height)
		if h.N*w.N == 1 && 4*height*c.p.R*c.p.S >= scatters {
			t[scattered] += vectors * products * panels
		}
		t[cost.Stores] += tiles * float64(c.outs)
	})
	size := c.cut(lanes)
	blocks := float64(kernel.CeilDiv(c.out.h, size.rows))
	t[loaded] += vectors * blocks * float64(c.mostSeen(size.rows)*c.in.w*c.channels)
	t[stored] += vectors * float64(c.out.pixels()*c.outs)
	t[packed] += float64(c.outs * c.channels * c.p.R * c.p.S)
	t[pieces] += panels
	if c.grad {
		t[pieces] += panels * float64(c.channels-1)
	}
	if blocks > 1 {
		t[pieces] += vectors * blocks * float64(c.channels+c.outs)
	} else {
		t[pieces] += 2 * vectors
	}
}

// countOutputs adds what a group takes with outputs in the lanes.
func (c *pass) countOutputs(t *cost.Terms) {
	images, lanes := float64(c.p.N), float64(kernel.Lanes())
	outs := float64(c.laneOuts())
	c.phases(func(h, w geometry.Phase) {
		v := c.newViews(h, w)
		products := float64(c.channels * h.N * w.N)
		chunks := 1.0
		if !c.byRows {
			chunks = float64(kernel.CeilDiv(c.channels, max(1, gemm.BlockK/(h.N*w.N))))
		}
		for _, b := range c.bands() {
			if b.panels > 0 {
				height := tileHeight(v.pixels(), b.panels)
				t[cost.Steps] += images * products * tileSteps(v.pixels(), height, b.panels)
			}
		}
		vectors := images * float64(v.pixels()) * outs / lanes
		t[cost.Stores] += vectors * chunks
		if c.phased() {
			t[placed] += vectors
		}
		t[phases] += images
		v.count(images, t)
	})
	t[stored] += images * float64(c.out.pixels()) * outs / lanes
	t[packed] += outs * float64(c.products())
	t[pieces] += float64(kernel.CeilDiv(c.outs, kernel.Lanes()))
	if c.grad {
		t[pieces] += float64(kernel.CeilDiv(c.outs, kernel.Lanes()) * c.channels)
	}
}

// steps is the cycles of a channel's products with a tile of a phase's outputs, for all pixels and images.
func (c *pass) steps(h, w *geometry.Phase) (cycles float64) {
	lanes, height := kernel.Lanes(), c.height()
	whole, pairs := float64(c.p.N/lanes), 0.0
	if rest := c.p.N % lanes; rest > narrow || rest > 0 && lanes == narrow {
		whole++
	} else if rest > 0 {
		pairs = 0.5
	}
	var vert, hori runs
	vert.between(&h.Axis, 0, h.Pixels)
	hori.between(&w.Axis, 0, w.Pixels)
	for _, v := range vert.list() {
		for _, u := range hori.list() {
			beside := u.n
			if beside == 1 {
				beside = v.n
			}
			cycles += float64(v.taps*v.n*u.taps*u.n) * (whole*stepCycles(height, beside) + pairs*tilesStep(height, 1))
		}
	}
	return cycles
}

// countPixels is count where pixels are in the lanes.
func (c *pass) countPixels(t *cost.Terms, height int, panels float64) {
	beside := kernel.CeilDiv(c.in.pixels(), c.pixelLanes())
	vectors := float64(c.p.N * beside)
	t[cost.Steps] += vectors * float64(c.channels*c.outs) / float64(height) * stepCycles(height, max(beside, c.blockImages()))
	t[cost.Stores] += vectors * float64(c.outs)
	t[streamed] += vectors * float64(c.channels+c.outs)
	t[packed] += float64(c.outs * c.channels)
	t[pieces] += panels
}

// seenTaps is how many taps of an axis all its outputs together see pixels through.
func seenTaps(a *geometry.Axis) (n float64) {
	for t := range a.Taps {
		first, end := seers(a.First+t*a.Step, a.Stride, a.In, 0, a.Out)
		n += float64(max(0, end-first))
	}
	return n
}

// count adds what the gradient of a group's weights takes.
func (g *weights) count(t *cost.Terms) {
	p := g.p
	rows, columns := g.sides()
	blocks := float64(kernel.CeilDiv(p.N, g.images) * kernel.CeilDiv(g.dy.h, g.rows))
	vert := geometry.Axis{In: p.H, Out: p.OutH(), Stride: p.StrideH, Taps: p.R, First: -p.PadH, Step: p.DilationH()}
	hori := geometry.Axis{In: p.W, Out: p.OutW(), Stride: p.StrideW, Taps: p.S, First: -p.PadW, Step: p.DilationW()}
	step := tileCycles(rows.channels, columns.channels)
	tiles := blocks * float64(g.taps()*columns.panels())
	if g.byTaps {
		step, tiles = g.tapCycles(), 0
		columns := g.columns()
		for _, u := range columns.list() {
			tiles += blocks * float64(p.R*kernel.CeilDiv(u.taps, g.tapsOfVector()))
			t[pieces] += blocks * float64(p.R*rows.panels())
		}
	}
	t[cost.Steps] += float64(p.N) * seenTaps(&vert) * seenTaps(&hori) * step
	const line = 64 / 4
	if p.StrideW > 1 && p.StrideW*g.x.width > line {
		t[apart] += float64(p.N) * seenTaps(&vert) * seenTaps(&hori) * float64(rows.panels()*columns.panels())
	}
	t[cost.Stores] += tiles * float64(rows.channels)
	images := float64(p.N)
	t[packedPixels] += images * float64(g.x.pixels()*g.x.panels()*g.x.width+g.dy.pixels()*g.dy.panels()*g.dy.width)
	t[pieces] += images * float64(kernel.CeilDiv(g.dy.h, g.rows)*(g.x.panels()+g.dy.panels()))
	if t[turned] += float64(g.sumElems()); g.sumElems() > cost.FarWeights {
		t[turnedFar] += float64(g.sumElems())
	}
	if g.turned {
		t[pieces] += float64(g.dy.channels)
	}
}

// stepCycles is how long the products of a tile of so many rows with one vector take, for each of so many tiles beside each
// other: a sum waits four cycles for the one before it, and a core issues two loads at a time.
func stepCycles(rows, beside int) float64 {
	n, alone := together(kernel.Lanes(), rows), tilesStep(rows, 1)
	single := float64(beside%n) / float64(beside)
	return single*alone + (1-single)*tilesStep(rows, n)
}

// tilesStep is that of so many tiles at a time.
func tilesStep(rows, tiles int) float64 {
	n, r := float64(tiles), float64(rows)
	return max(cost.FMAs(r), (r/n+1)/2, 4/n)
}

// tileCycles is that of products of so many channels in the rows of tiles and in their lanes.
func tileCycles(rows, columns int) float64 {
	height, panels := gemm.EvenRows(rows, maxRows), kernel.CeilDiv(columns, kernel.Lanes())
	return float64(panels) * float64(rows) / float64(height) * stepCycles(height, panels)
}
