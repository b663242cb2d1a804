package product

import "github.com/trainctl/trainctl/core/engine/kernel/conv/geometry"

// move copies an image to the matrices of a batch, of which they are those of the given number, or back.
func (m *patches) move(x, matrices []float32, number int, back bool) {
	matrix := matrices[number*m.image():][:m.image()]
	if m.pairs() {
		m.movePairs(x, matrix, matrices[m.batch*m.image():], back)
		return
	}
	p, ow, row := m.p, m.p.OutW(), gatherRow
	if back {
		row = scatterRow
	}
	for c := range p.C {
		for r := range p.R {
			to := matrix[(c*p.R+r)*p.S*m.pixels:][:p.S*m.pixels]
			for i := range p.OutH() {
				from := x[(c*p.H+i*p.StrideH+r)*p.W:][:p.W]
				row(from, to[i*ow:], ow, p.StrideW, p.S, m.pixels)
			}
		}
	}
}

// gatherRow copies the inputs of a row of pixels, step apart, for each tap to the next row of the matrix.
func gatherRow(x, matrix []float32, pixels, step, taps, between int) {
	for s := range taps {
		to, at := matrix[s*between:][:pixels], s
		for j := range to {
			to[j] = x[at]
			at += step
		}
	}
}

// scatterRow is the way back.
func scatterRow(x, matrix []float32, pixels, step, taps, between int) {
	for s := range taps {
		from, at := matrix[s*between:][:pixels], s
		for _, v := range from {
			x[at] = v
			at += step
		}
	}
}

// narrow is the lanes of the vectors that take even and odd elements apart.
const narrow = 8

// pairs reports whether vectors gather the pixels: of patches two or four wide, in rows of whole vectors.
func (m *patches) pairs() bool {
	return (m.p.S == 2 || m.p.S == 4) && m.p.StrideW == m.p.S && m.p.OutW()%narrow == 0
}

// pairElems is the room for rows of patches four wide, between the first time that they are taken apart and the second.
func (m *patches) pairElems() int {
	if m.p.S != 4 || !m.pairs() {
		return 0
	}
	return m.image() / m.p.R
}

// movePairs is move by vectors.
func (m *patches) movePairs(x, matrix, room []float32, back bool) {
	p, oh, ow := m.p, m.p.OutH(), m.p.OutW()
	for r := range p.R {
		rows := geometry.PlaneCopy{Images: p.C, Rows: oh, Src: &x[r*p.W], SrcImage: 4 * p.H * p.W, SrcRow: 4 * p.StrideH * p.W}
		taps := geometry.PlaneCopy{Images: p.C, Rows: oh, DstImage: 4 * p.R * p.S * m.pixels, DstRow: 4 * ow, Odd: 2 * p.S * m.pixels}
		if p.S == 2 {
			rows.Dst, rows.DstImage, rows.DstRow, rows.Odd = &matrix[r*p.S*m.pixels], taps.DstImage, taps.DstRow, taps.Odd
			apart(rows, 2*ow, back)
			continue
		}
		half := p.C * oh * 2 * ow
		rows.Dst, rows.DstImage, rows.DstRow, rows.Odd = &room[0], 4*oh*2*ow, 4*2*ow, 4*half
		if !back {
			apart(rows, 4*ow, back)
		}
		for odd := range 2 {
			taps.Src, taps.SrcImage, taps.SrcRow = &room[odd*half], rows.DstImage, rows.DstRow
			taps.Dst = &matrix[(r*p.S+odd)*m.pixels]
			apart(taps, 2*ow, back)
		}
		if back {
			apart(rows, 4*ow, back)
		}
	}
}

// apart takes even and odd elements of rows of n apart, or puts them together again.
func apart(c geometry.PlaneCopy, n int, back bool) {
	c.SetWidth(n, 2)
	if !back {
		c.Split()
		return
	}
	c.Src, c.SrcImage, c.SrcRow, c.Dst, c.DstImage, c.DstRow = c.Dst, c.DstImage, c.DstRow, c.Src, c.SrcImage, c.SrcRow
	c.Join()
}
