package product

import "github.com/trainctl/trainctl/core/engine/kernel/conv/geometry"

// move copies channels of an image to the matrices of a batch, among which it has a number, or, for input gradients, back. What vectors write behind the
// pixels of an image belongs to the next, which is copied later.
func (m *patches) move(channels int, x, matrices []float32, number int) {
	matrix, room := matrices[number*m.between:], matrices[m.matrixElems():]
	switch {
	case m.pixels == 1:
		m.movePixel(x, matrix)
	case m.pairs() && m.p.S == 4:
		m.joinFours(channels, x, matrix, room)
	case m.pairs():
		m.movePairs(channels, x, matrix)
	case m.back:
		m.taps.Scatter(channels, x, matrix, m.line)
	default:
		m.taps.Gather(channels, x, matrix, m.line)
	}
}

// turns reports whether windows copy images for this direction: those of at least four taps in a row, of which they turn squares.
func (m *patches) turns() bool { return !m.back && m.pixels > 1 && m.p.FitsWindows() }

// covers reports whether move writes every element of an image.
func (m *patches) covers() bool {
	return m.pixels > 1 && !m.pairs() || coversAll(m.p)
}

// coversAll reports whether patches see every element of an image.
func coversAll(p *geometry.Shape) bool {
	return p.StrideH == p.R && p.StrideW == p.S && p.OutH()*p.R == p.H && p.OutW()*p.S == p.W
}

// movePixel is move of what the only pixel sees.
func (m *patches) movePixel(x, matrix []float32) {
	p := m.p
	c := geometry.PlaneCopy{Images: p.C, Rows: p.R, Src: &x[0], SrcImage: 4 * p.H * p.W, SrcRow: 4 * p.W, Dst: &matrix[0], DstImage: 4 * p.R * p.S, DstRow: 4 * p.S}
	c.SetWidth(p.S, 1)
	if m.back {
		c.Src, c.SrcImage, c.SrcRow, c.Dst, c.DstImage, c.DstRow = c.Dst, c.DstImage, c.DstRow, c.Src, c.SrcImage, c.SrcRow
		c.Cut()
	} else {
		c.Frame()
	}
}

// pairs reports whether vectors take even and odd elements apart: for every second pixel, or for patches two wide. They
// also put together those of patches four wide, whose taps other vectors turn.
func (m *patches) pairs() bool {
	if m.pixels == 1 || m.p.PadH+m.p.PadW > 0 {
		return false
	}
	switch m.p.S {
	case 1:
		return m.p.StrideW == 2 && !m.back
	case 2:
		return m.p.StrideW == 2
	case 4:
		return m.p.StrideW == 4 && m.back
	}
	return false
}

// imageRows are the rows of channels of an image that row r of taps sees.
func (m *patches) imageRows(channels int, x []float32, r int) geometry.PlaneCopy {
	p := m.p
	return geometry.PlaneCopy{Images: channels, Rows: p.OutH(), Src: &x[r*p.W], SrcImage: 4 * p.H * p.W, SrcRow: 4 * p.StrideH * p.W}
}

// setTap makes c copy to what tap s of row r sees, and the odd elements to what the tap sees that is so many further.
func (m *patches) setTap(c *geometry.PlaneCopy, matrix []float32, r, s, odd int) {
	p := m.p
	c.Dst, c.DstImage, c.DstRow, c.Odd = &matrix[(r*p.S+s)*m.line], 4*p.R*p.S*m.line, 4*p.OutW(), 4*odd*m.line
}

// movePairs is move of every second pixel, or of patches two wide.
func (m *patches) movePairs(channels int, x, matrix []float32) {
	for r := range m.p.R {
		rows := m.imageRows(channels, x, r)
		m.setTap(&rows, matrix, r, 0, 1)
		if m.p.S == 1 {
			rows.SetWidth(min(2*m.p.OutW(), m.p.W), 2)
			rows.Evens()
		} else {
			apart(rows, 2*m.p.OutW(), m.back)
		}
	}
}

// foursElems is the room for the even elements of the rows of patches four wide that a row of taps sees, or for the odd ones,
// with what vectors write behind them; 0 for others.
func (m *patches) foursElems() int {
	if m.p.S != 4 || !m.pairs() {
		return 0
	}
	return m.channels*m.p.OutH()*2*m.p.OutW() + narrow
}

// narrow is the lanes of the vectors that take even and odd elements apart.
const narrow = 8

// joinFours puts the taps of patches four wide together in two steps.
func (m *patches) joinFours(channels int, x, matrix, room []float32) {
	oh, ow, half := m.p.OutH(), m.p.OutW(), m.foursElems()
	for r := range m.p.R {
		rows := m.imageRows(channels, x, r)
		rows.Dst, rows.DstImage, rows.DstRow, rows.Odd = &room[0], 4*oh*2*ow, 4*2*ow, 4*half
		for odd := range 2 {
			taps := geometry.PlaneCopy{Images: channels, Rows: oh, Src: &room[odd*half], SrcImage: rows.DstImage, SrcRow: rows.DstRow}
			m.setTap(&taps, matrix, r, odd, 2)
			apart(taps, 2*ow, true)
		}
		apart(rows, 4*ow, true)
	}
}

// apart takes even and odd elements of rows of n apart, or puts them together again.
func apart(c geometry.PlaneCopy, n int, back bool) {
	c.SetWidth(n, 2)
	if back {
		c.Src, c.SrcImage, c.SrcRow, c.Dst, c.DstImage, c.DstRow = c.Dst, c.DstImage, c.DstRow, c.Src, c.SrcImage, c.SrcRow
		c.Join()
	} else {
		c.Split()
	}
}
