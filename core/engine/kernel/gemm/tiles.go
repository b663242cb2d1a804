package gemm

import (
	"unsafe"

	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/amx"
)

// Products of bfloat16 in tiles of AMX. Panels of B hold the pairs of 16 columns, as gemmPairs packs them for vectors. A has its rows
// in pieces: where they lie so already, they are not copied.

// Panels of B of tileDepth pairs and of tileCols columns stay in L2; the rows of A of two tiles, of as many pairs, in L1.
const (
	tileDepth = 256
	tileCols  = 1024
	tileRows  = 2 * amx.Rows
)

// tilesScratch is the number of scratch elements that runTiles needs for these dimensions, and for smaller ones.
func tilesScratch(m, n, k int) int {
	depth := min(kernel.CeilDiv(k, 2), tileDepth) + amx.Pairs
	b := depth * min(n+amx.Cols, tileCols)
	a := min(m+amx.Rows, tileRows) * (depth + 2*kernel.Block)
	return b + a + depth*amx.Rows + packSlack
}

// tileSlice is a product over some of the pairs, in steps of so many each, of which the last may have fewer.
type tileSlice struct {
	gemmPairs
	first              int // column of A and of B
	pairs, steps, each int
	amx.Product
}

// tileSteps are where the steps of 1, 2, … pairs begin.
var tileSteps = func() (t [amx.Pairs][tileDepth / amx.Pairs]amx.Step) {
	for i := range t {
		for step := range t[i] {
			t[i][step] = amx.Step{A: int32(4 * step * (i + 1)), B: int32(4 * step * (i + 1) * amx.Cols)}
		}
	}
	return t
}()

// runTiles is run with AMX.
func (g *gemmPairs) runTiles(scratch []float32) {
	pairs := kernel.CeilDiv(g.k, 2)
	depth := EvenRows(pairs, tileDepth)
	for j := 0; j < g.n; j += tileCols {
		cols := min(tileCols, g.n-j)
		for l := 0; l < pairs; l += depth {
			s := tileSlice{gemmPairs: *g, first: 2 * l, pairs: min(depth, pairs-l)}
			s.steps = kernel.CeilDiv(s.pairs, amx.Pairs)
			s.each = kernel.CeilDiv(s.pairs, s.steps)
			rest := s.packColumns(j, cols, scratch)
			for i := 0; i < g.m; i += tileRows {
				rows := min(tileRows, g.m-i)
				s.packRows(i, rows, rest)
				s.multiply(i, j, rows, cols)
			}
		}
	}
}

// whole is the pairs of all steps, and what the last has less.
func (s *tileSlice) whole() int { return s.steps * s.each }

// tileShape makes matrix16.pack write panels of 16 columns.
var tileShape = TileShape{Rows: amx.Rows, cols: amx.Cols, Lanes: kernel.Block}

// packColumns packs columns of B from j on, and returns what is left of scratch.
func (s *tileSlice) packColumns(j, cols int, scratch []float32) []float32 {
	panel := s.whole() * amx.Cols
	for col := 0; col < cols; col += amx.Cols {
		to := scratch[col/amx.Cols*panel:]
		s.b.pack(tileShape, j+col, s.first, min(amx.Cols, cols-col), s.k, s.pairs, amx.Cols, to)
		clear(to[s.pairs*amx.Cols : panel])
	}
	s.B, s.BRow, s.BNext, s.BMove = halves(scratch), 4*amx.Cols, 4*panel, 2*4*panel
	s.Steps, s.Off = s.steps, &tileSteps[s.each-1][0]
	return scratch[kernel.CeilDiv(cols, amx.Cols)*panel:]
}

// packRows finds rows of A from i on as the tiles read them, or copies them to scratch.
func (s *tileSlice) packRows(i, rows int, scratch []float32) {
	const alias = 1024 // bytes: rows so far apart share few lines of the L1 cache
	from := i*s.a.row + s.first*s.a.col
	if s.a.col == 1 && s.first+2*s.whole() <= s.k && 2*s.a.row%alias > 0 {
		s.A, s.ARow = &s.a.data[from], 2*s.a.row
		s.ANext = amx.Rows * s.ARow
		return
	}
	row := (kernel.CeilDiv(s.whole(), kernel.Block) | 1) * kernel.Block
	s.A, s.ARow = halves(scratch), 4*row
	s.ANext = amx.Rows * s.ARow
	for r := range rows {
		to := scratch[r*row:][:row]
		if s.a.col == 1 {
			copied := copy(pairsOf(to), s.a.data[from+r*s.a.row:][:min(2*s.pairs, s.k-s.first)])
			clear(pairsOf(to)[copied : 2*s.whole()])
		}
	}
	if s.a.col > 1 {
		s.turnRows(i, rows, row, scratch)
	}
}

// turnRows is packRows for a matrix whose columns lie in one piece: it makes panels of pairs, and transposes those.
func (s *tileSlice) turnRows(i, rows, row int, scratch []float32) {
	panel := scratch[tileRows*row:]
	for r := 0; r < rows; r += amx.Rows {
		height := min(amx.Rows, rows-r)
		s.a.pack(tileShape, i+r, s.first, height, s.k, s.pairs, amx.Rows, panel)
		for pair := 0; pair < s.pairs; pair += kernel.Block {
			vecPackAcross(min(kernel.Block, s.pairs-pair), &panel[pair*amx.Rows], 4*amx.Rows, amx.Rows, kernel.FirstLanes(kernel.Block), &scratch[r*row+pair], 4*row)
		}
		for j := range height {
			clear(scratch[(r+j)*row:][s.pairs:s.whole()])
		}
	}
}

// multiply computes rows and columns of C.
func (s *tileSlice) multiply(i, j, rows, cols int) {
	s.C, s.CRow, s.CNext, s.CMove = &s.c[i*s.ldc+j], 4*s.ldc, 4*amx.Cols, 2*4*amx.Cols
	if s.Add = 0; s.add || s.first > 0 {
		s.Add = 1
	}
	const both = 2 * amx.Cols
	b := s.B
	if s.Count = cols / both; s.Count > 0 {
		s.SetTiles(rows, both, s.each)
		s.Run()
	}
	if rest := cols % both; rest > 0 {
		s.B = (*uint16)(unsafe.Add(unsafe.Pointer(b), s.Count*s.BMove))
		s.C = &s.c[i*s.ldc+j+s.Count*both]
		s.Count = 1
		s.SetTiles(rows, rest, s.each)
		s.Run()
	}
	s.B = b
}

// halves is the address of the first bfloat16 of x; pairsOf views all of them.
func halves(x []float32) *uint16   { return (*uint16)(unsafe.Pointer(&x[0])) }
func pairsOf(x []float32) []uint16 { return unsafe.Slice(halves(x), 2*len(x)) }
