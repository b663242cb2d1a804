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
	case m.pixels == 1:
		m.movePixel(x, matrix, back)
	case m.pairs() && m.p.S == 4:
		m.moveFours(x, matrix, room, back)
	case m.pairs():
		m.movePairs(x, matrix, back)
	case m.squares() && !back:
		m.turn(x, matrix)
	case back:
		m.taps.Scatter(m.p.C, x, matrix, m.line)
	default:
		m.taps.Gather(m.p.C, x, matrix, m.line)
	}
}

// covers reports whether move writes every element of an image.
func (m *patches) covers() bool {
	p := m.p
	return m.pixels > 1 && !m.pairs() || p.StrideH == p.R && p.StrideW == p.S && p.OutH()*p.R == p.H && p.OutW()*p.S == p.W
}

// movePixel is move of what the only pixel sees.
func (m *patches) movePixel(x, matrix []float32, back bool) {
	p := m.p
	c := geometry.PlaneCopy{Images: p.C, Rows: p.R, Src: &x[0], SrcImage: 4 * p.H * p.W, SrcRow: 4 * p.W, Dst: &matrix[0], DstImage: 4 * p.R * p.S, DstRow: 4 * p.S}
	c.SetWidth(p.S, 1)
	if back {
		c.Src, c.SrcImage, c.SrcRow, c.Dst, c.DstImage, c.DstRow = c.Dst, c.DstImage, c.DstRow, c.Src, c.SrcImage, c.SrcRow
		c.Cut()
	} else {
		c.Frame()
	}
}

// square is how many taps and pixels are gathered at once at least.
const square = 8

// squares reports whether pixels are gathered in squares.
func (m *patches) squares() bool {
	return m.p.S%square == 0 && m.p.PadH+m.p.PadW == 0
}

// turn is move of squares.
func (m *patches) turn(x, matrix []float32) {
	p, ow := m.p, m.p.OutW()
	for c := range p.C {
		for r := range p.R {
			to := matrix[(c*p.R+r)*p.S*m.line:]
			for i := range p.OutH() {
				turnRow(x[(c*p.H+i*p.StrideH+r)*p.W:], to[i*ow:], ow, p.StrideW, p.S, m.line)
			}
		}
	}
}

// turnRow copies the inputs of a row of pixels, step apart, for each tap to the next row of the matrix. What it writes behind the
// pixels is overwritten by the next row, or the next image.
func turnRow(x, matrix []float32, pixels, step, taps, between int) {
	lanes := square
	if taps%kernel.Lanes() == 0 {
		lanes = kernel.Lanes()
	}
	for first := 0; first < pixels; first += lanes {
		gemm.PackAcross(lanes, min(lanes, pixels-first), &x[first*step], 4*step, taps, &matrix[first], 4*between)
	}
}

// pairs reports whether vectors take even and odd elements apart: for every second pixel, or for patches two or four wide.
func (m *patches) pairs() bool {
	if m.pixels == 1 || m.p.PadH+m.p.PadW > 0 {
		return false
	}
	switch m.p.S {
	case 1:
		return m.p.StrideW == 2
	case 2, 4:
		return m.p.StrideW == m.p.S
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
	if m.p.S != 4 || !m.pairs() {
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
