package kernel

// The convolution for every geometry and type: the patches that a block of output
// rows looks at become the columns of a matrix (im2col, Chellapilla, Puri and
// Simard, 2006), block by block, and Gemm does the rest.

// columnElems bounds the elements of a block of columns, a single row aside.
const columnElems = 1 << 16

// columnRows is how many output rows a block has.
func (p *Conv) columnRows() int {
	return min(p.OutH(), max(1, columnElems/(p.patch()*p.OutW())))
}

// patch is the number of inputs that one output depends on.
func (p *Conv) patch() int { return p.C / p.groups() * p.R * p.S }

func columnScratch(p *Conv) int {
	m, n, k := p.K/p.groups(), p.columnRows()*p.OutW(), p.patch()
	return k*n + max(GemmScratch(m, n, k), GemmScratch(m, k, n), GemmScratch(k, n, m))
}

// columnBlocks calls f for each image, group and block of output rows with the
// group's parts of x, w and y; y starts at the block's first row.
func columnBlocks[T Float](p *Conv, x, w, y []T, f func(x, w, y []T, group, row, rows int)) {
	g, oh, ow, most := p.groups(), p.OutH(), p.OutW(), p.columnRows()
	cg, kg, size := p.C/g, p.K/g, p.patch()
	for n := range p.N {
		for i := range g {
			xg, wg := x[(n*p.C+i*cg)*p.H*p.W:][:cg*p.H*p.W], w[i*kg*size:][:kg*size]
			yg := y[(n*p.K+i*kg)*oh*ow:][:kg*oh*ow]
			for row := 0; row < oh; row += most {
				f(xg, wg, yg[row*ow:], i, row, min(most, oh-row))
			}
		}
	}
}

func columnForward[T Float](p *Conv, x, w, bias, y, scratch []T) {
	m, k, ow, plane := p.K/p.groups(), p.patch(), p.OutW(), p.OutH()*p.OutW()
	columnBlocks(p, x, w, y, func(x, w, y []T, group, row, rows int) {
		cols, rest := scratch[:k*rows*ow], scratch[k*rows*ow:]
		imageToColumns(p, x, row, rows, cols)
		var beta T
		if bias != nil {
			beta = 1
			for i := range m {
				Fill(y[i*plane:][:rows*ow], bias[group*m+i])
			}
		}
		Gemm(false, false, m, rows*ow, k, 1, w, k, cols, rows*ow, beta, y, plane, rest)
	})
}

func columnGradInput[T Float](p *Conv, dy, w, dx, scratch []T) {
	m, k, ow, plane := p.K/p.groups(), p.patch(), p.OutW(), p.OutH()*p.OutW()
	clear(dx[:p.N*p.C*p.H*p.W])
	columnBlocks(p, dx, w, dy, func(dx, w, dy []T, _, row, rows int) {
		cols, rest := scratch[:k*rows*ow], scratch[k*rows*ow:]
		Gemm(true, false, k, rows*ow, m, 1, w, k, dy, plane, 0, cols, rows*ow, rest)
		columnsToImage(p, cols, row, rows, dx)
	})
}

func columnGradWeight[T Float](p *Conv, x, dy, dw, scratch []T, accumulate bool) {
	m, k, ow, plane := p.K/p.groups(), p.patch(), p.OutW(), p.OutH()*p.OutW()
	if !accumulate {
		clear(dw[:p.K*k])
	}
	columnBlocks(p, x, dw, dy, func(x, dw, dy []T, _, row, rows int) {
		cols, rest := scratch[:k*rows*ow], scratch[k*rows*ow:]
		imageToColumns(p, x, row, rows, cols)
		Gemm(false, true, m, k, rows*ow, 1, dy, plane, cols, rows*ow, 1, dw, k, rest)
	})
}

// imageToColumns writes one row per (channel, r, s) and one column per output
// pixel of the block; what lies in the padding is 0.
func imageToColumns[T Float](p *Conv, x []T, row, rows int, cols []T) {
	ow, at := p.OutW(), 0
	p.patchRows(row, rows, func(c, h, s int) {
		dst := cols[at:][:ow]
		at += ow
		if h < 0 || h >= p.H {
			clear(dst)
			return
		}
		src := x[(c*p.H+h)*p.W:][:p.W]
		lo, hi := p.insideCols(s)
		clear(dst[:lo])
		clear(dst[hi:])
		v := lo*p.StrideW - p.PadW + s*p.dilW()
		for j := lo; j < hi; j++ {
			dst[j] = src[v]
			v += p.StrideW
		}
	})
}

// columnsToImage adds every column back to the pixels that it came from.
func columnsToImage[T Float](p *Conv, cols []T, row, rows int, dx []T) {
	ow, at := p.OutW(), 0
	p.patchRows(row, rows, func(c, h, s int) {
		src := cols[at:][:ow]
		at += ow
		if h < 0 || h >= p.H {
			return
		}
		dst := dx[(c*p.H+h)*p.W:][:p.W]
		lo, hi := p.insideCols(s)
		v := lo*p.StrideW - p.PadW + s*p.dilW()
		for j := lo; j < hi; j++ {
			dst[v] += src[j]
			v += p.StrideW
		}
	})
}

// patchRows calls f for each row of pixels of the column matrix, in its order,
// with channel, input row and horizontal tap.
func (p *Conv) patchRows(row, rows int, f func(c, h, s int)) {
	for c := range p.C / p.groups() {
		for r := range p.R {
			for s := range p.S {
				for i := row; i < row+rows; i++ {
					f(c, i*p.StrideH-p.PadH+r*p.dilH(), s)
				}
			}
		}
	}
}

// insideCols are the output columns [lo, hi) whose tap s falls inside the image.
func (p *Conv) insideCols(s int) (lo, hi int) {
	first := s*p.dilW() - p.PadW // input column of output column 0
	if first < 0 {
		lo = (-first + p.StrideW - 1) / p.StrideW
	}
	if last := p.W - 1 - first; last >= 0 {
		hi = last/p.StrideW + 1
	}
	ow := p.OutW()
	hi = min(hi, ow)
	return min(lo, hi), hi
}
