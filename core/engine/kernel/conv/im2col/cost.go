package im2col

import (
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/cost"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/geometry"
)

// Cost is the estimated cycles of a direction of p. See package cost.
func Cost(p *geometry.Shape, d geometry.Direction) float64 {
	g, kg, cg := p.GroupCount(), p.K/p.GroupCount(), p.C/p.GroupCount()
	pixels, taps, in, out := p.N*p.OutH()*p.OutW(), p.PatchSize(), cg, kg
	if d == geometry.ToInput {
		in, out = kg, cg
		pixels, taps = p.N*p.H*p.W, max(1, kg*p.R*p.S/(p.StrideH*p.StrideW))
	}
	rows := float64(in) * float64(p.N*(p.H+p.OutH()))
	c := rows*cost.RowCopies + float64(pixels)*(colCopies*float64(taps)+float64(out)*0.3)
	if kernel.Current() != kernel.AVX512 {
		c += float64(pixels) * colCopies * float64(taps)
	}
	if p.StrideW > 2 && d != geometry.ToInput {
		c += 3 * cost.ElemCopies * float64(p.N*cg*p.H*p.W)
	}
	if g > 1 {
		c *= groupLosses
	}
	return float64(g) * (c + cost.MatrixProduct(out, pixels, taps))
}

// colCopies is the cycles of writing an element of the matrix of columns, and of reading it in Gemm.
const colCopies = 0.25

// groupLosses is how much longer copies of a few channels take than the model says.
const groupLosses = 3.0
