package tiled

import (
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/amx"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/cost"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/geometry"
)

// What products of tiles take beside them.
const (
	products    = cost.Own + iota // of tiles, 16 cycles each as the core could issue them
	calls                         // of the kernel
	storedSums                    // elements that products store, or read again
	filledRows                    // vectors of images that are copied to a frame
	fills                         // calls for that
	writtenRows                   // vectors of results
	writes                        // calls for that
	packedPairs                   // vectors of filters' pairs
	copiedRows                    // rows of planes that are copied for weight gradients
	turnedPairs                   // vectors of dy's pairs of pixels
	writtenSums                   // elements of the weights' gradient
	cleared                       // elements of frames
)

// Rates is the cycles of each, fitted to times on an Intel Xeon of model 207 (Emerald Rapids).
var Rates = cost.Rates{
	kernel.AVX512: {products: 1.14, calls: 215, storedSums: 0.36, filledRows: 8.9, fills: 7.9, writtenRows: 0.76, writes: 10, packedPairs: 3.7, copiedRows: 11.5, turnedPairs: 9.4, writtenSums: 0.32, cleared: 0.29},
}

// Terms counts what direction d of p does. See package cost.
func Terms(p *geometry.Shape, d geometry.Direction) cost.Terms {
	if d == geometry.ToWeight {
		c := newWeight(p)
		return c.terms()
	}
	c := newForward(p, d == geometry.ToInput)
	return c.terms()
}

func (c *forward) terms() (t cost.Terms) {
	f := &c.f
	n, groups := float64(c.p.N), float64(kernel.CeilDiv(c.p.N, f.images))
	rows := f.rows(f.images)
	chunks := kernel.CeilDiv(rows, c.chunk)
	pixels := chunks * c.chunkElems()
	taps := c.p.R * c.p.S
	phases := c.results()
	t[products] = groups * float64(pixels/amx.Cols*c.panels()*taps*c.blocks*amx.Rows)
	t[calls] = groups * float64(phases*chunks*kernel.CeilDiv(c.outs, 2*amx.Rows))
	t[storedSums] = groups * float64(phases*pixels*c.outs)
	t[fills] = n * float64(f.strideH*c.pairs*kernel.CeilDiv(f.w, kernel.Block))
	if f.h == 1 && f.strideW == 1 {
		t[fills] = n * float64(2*c.pairs)
	}
	t[filledRows] = n * float64(f.h*c.pairs*kernel.CeilDiv(f.w, kernel.Block))
	t[writes] = n * float64(phases*c.outs)
	t[writtenRows] = n * float64(phases*c.outs*f.oh*kernel.CeilDiv(f.ow, kernel.Block))
	t[packedPairs] = float64(c.outs * c.planes() * kernel.CeilDiv(taps, kernel.Block))
	t[cleared] = float64(c.planes() * c.next())
	return t
}

func (c *weight) terms() (t cost.Terms) {
	f := &c.f
	n, groups := float64(c.p.N), float64(kernel.CeilDiv(c.p.N, f.images))
	parts := kernel.CeilDiv(len(c.steps)+c.pixels/stepPixels, partSteps)
	t[products] = groups * float64(c.pixels/stepPixels*c.channels()/amx.Rows*c.filters()/amx.Cols*c.taps*min(amx.Rows, c.p.C))
	t[calls] = groups * float64(parts*kernel.CeilDiv(c.p.C, 2*amx.Rows)*c.taps*min(2, kernel.CeilDiv(c.p.K, 2*amx.Cols)))
	t[storedSums] = groups * 2 * float64(parts*c.sumElems())
	t[copiedRows] = n * float64(c.p.C*f.h+c.p.K*f.oh)
	t[turnedPairs] = groups * float64(c.filters()/amx.Cols*c.pixels/2)
	t[writtenSums] = float64(c.sumElems())
	t[cleared] = float64(c.channels() * c.next() / 2)
	return t
}
