package product

import (
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/conv/geometry"
	"github.com/trainctl/trainctl/core/engine/kernel/gemm"
)

// move copies an image to the matrices of a batch, among which it has a number, or back. What vectors write behind the
// pixels of an image belongs to the next, which is copied later.
func (m *patches) move(x, matrices []float32, number int, back bool) {
	matrix, room := matrices[number*m.between:], matrices[m.matrixElems():]
	switch {
	case !m.vectors():
		m.moveElements(x, matrix, back)
	case m.p.S == 4:
		m.moveFours(x, matrix, room, back)
	default:
		m.movePairs(x, matrix, back)
	}
}

// moveElements is move of one element after the other, or of squares of them.
func (m *patches) moveElements(x, matrix []float32, back bool) {
	p, ow, row := m.p, m.p.OutW(), gatherRow
	switch {
	case back:
		row = scatterRow
	case p.S%kernel.Lanes() == 0:
		row = turnRow
	}
	for c := range p.C {
		for r := range p.R {
			to := matrix[(c*p.R+r)*p.S*m.line:]
			for i := range p.OutH() {
				from := x[(c*p.H+i*p.StrideH+r)*p.W:][:p.W]
				row(from, to[i*ow:], ow, p.StrideW, p.S, m.line)
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

// turnRow is gatherRow for taps that are whole vectors. What it writes behind the pixels is overwritten by the next row, or
// the next image.
func turnRow(x, matrix []float32, pixels, step, taps, between int) {
	for lanes, first := kernel.Lanes(), 0; first < pixels; first += lanes {
		gemm.PackAcross(min(lanes, pixels-first), &x[first*step], 4*step, taps, &matrix[first], 4*between)
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

// vectors reports whether vectors gather the pixels: every second one, or of patches two or four wide.
func (m *patches) vectors() bool {
	switch m.p.S {
	case 1:
		return m.p.StrideW == 2 && m.pixels > 1
	case 2, 4:
		return m.p.StrideW == m.p.S && m.pixels > 1
	}
	return false
}

// imageRows are the rows of an image that row r of taps sees.
func (m *patches) imageRows(x []float32, r int) geometry.PlaneCopy {
	p := m.p
	return geometry.PlaneCopy{Images: p.C, Rows: p.OutH(), Src: &x[r*p.W], SrcImage: 4 * p.H * p.W, SrcRow: 4 * p.StrideH * p.W}
}

// setTap makes c copy to what tap s of row r sees, and the odd elements to what the tap sees that is so many further.
func (m *patches) setTap(c *geometry.PlaneCopy, matrix []float32, r, s, odd int) {
	p := m.p
	c.Dst, c.DstImage, c.DstRow, c.Odd = &matrix[(r*p.S+s)*m.line], 4*p.R*p.S*m.line, 4*p.OutW(), 4*odd*m.line
}

// movePairs is move of every second pixel, or of patches two wide.
func (m *patches) movePairs(x, matrix []float32, back bool) {
	for r := range m.p.R {
		rows := m.imageRows(x, r)
		m.setTap(&rows, matrix, r, 0, 1)
		apart(rows, min(2*m.p.OutW(), m.p.W), m.p.S == 1, back)
	}
}

// foursElems is the room for the even elements of the rows of patches four wide that a row of taps sees, or for the odd ones,
// with what vectors write behind them; 0 for other patches.
func (m *patches) foursElems() int {
	if m.p.S != 4 || !m.vectors() {
		return 0
	}
	return m.p.C*m.p.OutH()*2*m.p.OutW() + narrow
}

// narrow is the lanes of the vectors that take even and odd elements apart.
const narrow = 8

// moveFours is move of patches four wide, which are taken apart twice.
func (m *patches) moveFours(x, matrix, room []float32, back bool) {
	oh, ow, half := m.p.OutH(), m.p.OutW(), m.foursElems()
	for r := range m.p.R {
		rows := m.imageRows(x, r)
		rows.Dst, rows.DstImage, rows.DstRow, rows.Odd = &room[0], 4*oh*2*ow, 4*2*ow, 4*half
		if !back {
			apart(rows, 4*ow, false, back)
		}
		for odd := range 2 {
			taps := geometry.PlaneCopy{Images: m.p.C, Rows: oh, Src: &room[odd*half], SrcImage: rows.DstImage, SrcRow: rows.DstRow}
			m.setTap(&taps, matrix, r, odd, 2)
			apart(taps, 2*ow, false, back)
		}
		if back {
			apart(rows, 4*ow, false, back)
		}
	}
}

// apart takes even and odd elements of rows of n apart, or puts them together again; odd ones may be left out, and are
// zeros then.
func apart(c geometry.PlaneCopy, n int, evens, back bool) {
	c.SetWidth(n, 2)
	if back {
		c.Src, c.SrcImage, c.SrcRow, c.Dst, c.DstImage, c.DstRow = c.Dst, c.DstImage, c.DstRow, c.Src, c.SrcImage, c.SrcRow
	}
	switch {
	case evens && back:
		c.Spread()
	case evens:
		c.Evens()
	case back:
		c.Join()
	default:
		c.Split()
	}
}
