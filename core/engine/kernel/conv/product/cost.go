package product

import (
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/cost"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/geometry"
)

// Cost is the estimated cycles of a direction of p. See package cost.
func Cost(p *geometry.Shape, d geometry.Direction) float64 {
	m, g, kg := newPatches(p), p.GroupCount(), p.K/p.GroupCount()
	c := 0.0
	if !m.inPlace {
		c = cost.ElemCopies * float64(p.N*m.image())
		if p.StrideW > p.S {
			c *= 2 // cache lines of which little is looked at
		}
		if p.StrideW == 2 {
			c *= 1.3 // against frames, which are split in vectors
		}
	}
	in, out := m.rows, kg
	if d == geometry.ToInput {
		in, out = out, in
	}
	switch {
	case m.pixels == 1:
		return c + float64(g)*cost.MatrixProduct(p.N, out, in)
	case d != geometry.ToWeight:
		vectors := p.N * kernel.CeilDiv(m.pixels, kernel.Lanes())
		work := float64(g) * (cost.Tiles(vectors, in, out) + cost.WeightCopy/4*float64(in*out))
		if g > 1 {
			work *= groupLosses
		}
		return c + work
	}
	deep := m.deep()
	if deep.line > 0 {
		c += float64(g) * cost.RowCopies / 4 * float64(p.N*(in+out)*kernel.CeilDiv(m.pixels, kernel.Lanes()))
	}
	if m.packsInputs(kg) {
		kg, m.rows = m.rows, kg
	}
	return c + float64(g*p.N)/float64(deep.images)*cost.MatrixProduct(kg, m.rows, deep.images*m.pixels)
}

// groupLosses is how much longer tiles of one group of channels take, which leave cache lines of the others out.
const groupLosses = 2.0
