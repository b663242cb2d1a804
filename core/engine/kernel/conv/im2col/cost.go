package im2col

import (
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/cost"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/geometry"
)

// What the algorithm does beside the tiles of Gemm.
const (
	packed        = cost.Own + iota // elements of A that Gemm packs
	products                        // calls of Gemm
	frameRows                       // rows of a channel that are copied to a frame
	frameElems                      // elements of these that a stride picks one by one
	tapBands                        // of the frames, copied to the columns of a tap
	tapRows                         // rows of these
	tapVectors                      // vectors of these
	blockRows                       // bands of the result that are copied to or from a block
	blockElems                      // elements that a stride leaves apart in the result
	transposed                      // weights
	transposedFar                   // of these, where they are many: in a training step they come from memory
)

// Rates is the cycles of each.
var Rates = cost.Rates{
	kernel.AVX2:     {cost.Steps: 0.92, cost.Calls: 19.5, cost.Stores: 2.25, packed: 0.627, products: 968, frameRows: 28.3, tapBands: 1.16, tapRows: 4.65, tapVectors: 12.6, blockRows: 3.67, blockElems: 2.48, transposed: 1.4, transposedFar: 3, cost.Copied: 0.6},
	cost.HalvedAVX2: {cost.Steps: 1.01, cost.Calls: 20, cost.Stores: 12.8, packed: 1.82, products: 3.31e+03, frameRows: 59.2, tapBands: 1.2, tapRows: 6.43, tapVectors: 29.9, blockRows: 4, blockElems: 4.96, transposed: 1.13, transposedFar: 4, cost.Copied: 0.6},
	kernel.AVX512:   {cost.Steps: 0.849, cost.Calls: 23.4, cost.Stores: 4.74, packed: 0.442, products: 508, frameRows: 9.43, frameElems: 1.6, tapBands: 20.3, tapVectors: 3.9, blockRows: 12.9, blockElems: 2, transposed: 1.5, transposedFar: 3, cost.Copied: 1.5},
}

// Terms counts what a direction of p does. See package cost.
func Terms(p *geometry.Shape, d geometry.Direction) (t cost.Terms) {
	groups := float64(p.GroupCount())
	if d != geometry.ToInput {
		c := inputCall(p)
		c.count(&t, p.K/p.GroupCount(), d == geometry.ToWeight)
		return t.Times(groups)
	}
	p.Phases(func(h, w geometry.Phase) {
		c, m := phaseCall(p, h, w), p.C/p.GroupCount()
		c.count(&t, m, false)
		weights := float64(m * c.channels * c.taps())
		if t[transposed] += weights; p.K*p.PatchSize() > cost.FarWeights {
			t[transposedFar] += weights
		}
		if p.StrideW > 1 {
			t[blockElems] += float64(m * c.images * c.vert.Out * c.hori.Out)
		}
	})
	return t.Times(groups)
}

// count adds a product with m planes: into them, or, for gradients of weights, from them.
func (c *call) count(t *cost.Terms, m int, toWeight bool) {
	rows := c.images * c.vert.Out
	blocks := kernel.CeilDiv(rows, c.rows)
	chunks := kernel.CeilDiv(c.channels, c.chunk)
	bands := float64(c.images + blocks - 1)
	if blocks > c.images {
		bands = float64(blocks + c.images/2)
	}
	n, lanes := min(rows, c.rows)*c.hori.Out, kernel.Lanes()
	calls, in := float64(blocks*chunks), c.channels*c.taps()/chunks
	tiles := cost.Product(kernel.CeilDiv(n, lanes), in, m)
	t[packed] += calls * float64(m*in)
	if toWeight {
		tiles = cost.Product(kernel.CeilDiv(m, lanes), n, in)
		t[packed] += calls * float64(m*(n-in))
	}
	t.Add(tiles.Times(calls))
	t[products] += calls
	channels := float64(c.channels)
	frame := channels * (float64(rows*c.vert.Stride) + bands*float64(max(0, c.vert.Reach()-c.vert.Stride)))
	t[frameRows] += frame * float64(c.hori.Stride)
	if c.hori.Stride > 1 {
		t[frameElems] += frame * float64(c.hori.In)
	}
	taps := channels * float64(c.taps())
	t[tapBands] += taps * bands
	t[tapRows] += taps * float64(rows)
	t[tapVectors] += taps * float64(rows*kernel.CeilDiv(c.hori.Out, geometry.RunLength))
	t[blockRows] += float64(m) * bands
}
