package direct

import (
	"github.com/trainctl/trainctl/core/engine/kernel/conv/geometry"
	"github.com/trainctl/trainctl/core/engine/kernel/gemm"
)

// The weight gradient of filters of 1×1 is a product of matrices, dy [K, pixels] and x [C, pixels], of every
// image. Sums run over pairs of neighbouring pixels.

// fewWeightPixels is how many pixels an image has at least; for fewer the sums are read and written too often.
const fewWeightPixels = 8

// pixelProduct is the product of one image. Its matrices change places where that fills vectors: sums are
// then [C, K].
type pixelProduct struct {
	picks
	inputs, filters, pixels int
	turned                  bool
}

func newPixelProduct(p *geometry.Shape) pixelProduct {
	flat := picked(p)
	const wide = 32 // sums of a tile in a row, at most
	return pixelProduct{picks: newPicks(p), inputs: flat.C, filters: flat.K, pixels: flat.W, turned: flat.C < wide && flat.C < flat.K}
}

// pixelScratch is the number of scratch elements that gradPixelWeight needs.
func pixelScratch(p *geometry.Shape) int {
	m := newPixelProduct(p)
	n := m.roomElems() + max(gemm.GemmBF16Scratch(m.filters, m.inputs, m.pixels), gemm.GemmBF16Scratch(m.inputs, m.filters, m.pixels))
	if m.turned {
		n += m.inputs * m.filters
	}
	return n
}

// gradPixelWeight is GradWeightBF16 for filters of 1×1.
func gradPixelWeight(p *geometry.Shape, x, dy []uint16, dw, scratch []float32, accumulate bool) {
	m := newPixelProduct(p)
	scratch = m.reserve(scratch)
	sums := dw
	if m.turned {
		sums, scratch = scratch[:m.inputs*m.filters], scratch[m.inputs*m.filters:]
	}
	in, out := p.C*p.H*p.W, m.filters*m.pixels
	for n := range p.N {
		m.add(m.imageOf(x[n*in:]), dy[n*out:], sums, scratch, n > 0 || accumulate && !m.turned)
	}
	if m.turned {
		m.turn(sums, dw, accumulate)
	}
}

// imageOf is the pixels of an image that filters see.
func (m *pixelProduct) imageOf(x []uint16) []uint16 {
	if !m.some() {
		return x
	}
	m.pick(x, m.room, m.pixels)
	return m.room
}

// add writes an image's products to sums, or adds them.
func (m *pixelProduct) add(x, dy []uint16, sums, scratch []float32, accumulate bool) {
	if m.turned {
		gemm.GemmBF16(false, true, m.inputs, m.filters, m.pixels, x, m.pixels, dy, m.pixels, sums, m.filters, scratch, accumulate)
		return
	}
	gemm.GemmBF16(false, true, m.filters, m.inputs, m.pixels, dy, m.pixels, x, m.pixels, sums, m.inputs, scratch, accumulate)
}

// turn writes sums [C, K] to dw [K, C], or adds them.
func (m *pixelProduct) turn(sums, dw []float32, accumulate bool) {
	for k := range m.filters {
		for c, row := 0, dw[k*m.inputs:][:m.inputs]; c < len(row); c++ {
			v := sums[c*m.filters+k]
			if accumulate {
				v += row[c]
			}
			row[c] = v
		}
	}
}
