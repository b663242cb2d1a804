package gemm

import (
	"math"

	"github.com/trainctl/trainctl/core/engine/kernel"
)

// Products whose few columns would leave much of each vector empty: the rows of C go to the lanes instead. Every element
// adds up in the same order as otherwise.

// turnedElems bounds the elements of C that runTurned copies, and turnedFrom is the least k for which it pays.
const (
	turnedElems = 1 << 14
	turnedFrom  = 32
)

// turns reports whether runTurned computes a product of k rows: k runs down the columns of both matrices.
func (p *product) turns() bool {
	return p.alpha == 1 && p.a.row == 1 && p.b.col == 1 && p.f.Bias == nil && !p.f.ReLU && p.f.Gate == nil &&
		p.k >= turnedFrom && p.m*p.n <= turnedElems && 8*stepCycles(p.n, p.m) < p.turnedEighths()*stepCycles(p.m, p.n)
}

// turnedEighths bounds the cycles for which the transpose of C pays, in eighths of those without. It may take more of them
// if A's rows are longer than B's and not in a cache: tiles take less of a row of A at a time than of a row of B.
func (p *product) turnedEighths() int {
	if p.Lanes < kernel.Block && p.m > p.n && p.k*p.m >= farB {
		return 9
	}
	return 7
}

// stepCycles is twice the cycles that each k takes in the tiles of m×n: a core issues two multiply-adds or two loads in
// a cycle, and a tile's sums wait four cycles for themselves.
func stepCycles(m, n int) (sum int) {
	s := tileFor(n)
	height := EvenRows(m, s.Rows)
	for j := 0; j < n; j += s.cols {
		vectors := s.vectors(min(s.cols, n-j))
		for i := 0; i < m; i += height {
			rows := min(height, m-i)
			sum += max(rows*vectors, rows+vectors, 2*4)
		}
	}
	return sum
}

// runTurned computes the transpose Bᵀ·A of C.
func (p *product) runTurned(scratch []float32) {
	turned, rest := scratch[:p.m*p.n], scratch[p.m*p.n:]
	q := *p
	q.TileShape = tileFor(p.m)
	q.m, q.n, q.c, q.ldc = p.n, p.m, turned, p.m
	q.a, q.b = strided[float32]{p.b.data, 1, p.b.row}, strided[float32]{p.a.data, p.a.col, 1}
	if p.add {
		p.eachTurned(func(c, t *float32) { *t = *c }, turned)
	}
	q.runAlong(rest)
	p.eachTurned(func(c, t *float32) { *c = *t }, turned)
}

// eachTurned calls f for each element of C and its place in the transpose.
func (p *product) eachTurned(f func(c, t *float32), turned []float32) {
	for i := range p.m {
		row := p.c[i*p.ldc:][:p.n]
		for j := range row {
			f(&row[j], &turned[j*p.m+i])
		}
	}
}

// turnedScratch is the room for the transpose of C, or of a part of it.
func turnedScratch(m, n int) int {
	if kernel.Current() == kernel.Generic {
		return 0
	}
	return min(m*n, turnedElems)
}

// narrow reports whether runNarrow computes a product whose rows of A lie apart.
func (p *product) narrow() bool {
	return 2*p.n <= p.Lanes && p.m >= 2*p.Lanes && (p.b.row == 1 || p.f.Bias == nil && !p.f.ReLU)
}

// mostPaired is how many columns two tiles may have at a time, as gen/gemm/narrow.go says.
const mostPaired = 4

// narrowAhead is how many tiles ahead A and C are prefetched.
const narrowAhead = 2

// runNarrow computes C = A·B a vector of rows at a time.
func (p *product) runNarrow(scratch []float32) {
	height, width := 2*p.Lanes, p.Lanes // of the rows that are computed at a time, and of their elements
	if p.n > mostPaired {
		height = p.Lanes
	}
	if p.Lanes < kernel.Block {
		width = 4
	}
	rows := p.m / height * height
	t := strip{
		tiles: rows / height, aStep: 4 * p.a.row, aNext: 4 * height * p.a.row, b: &scratch[0], ldc: 4 * p.ldc,
		n1: p.Mask(p.n), bias: &noBias[0], floor: float32(math.Inf(-1)),
	}
	if p.f.Bias != nil {
		t.bias = &p.f.Bias[0]
	}
	if p.add {
		t.add = 1
	}
	if p.shortAndFar() {
		t.aheadA, t.aheadC = narrowAhead*t.aNext, narrowAhead*height*t.ldc
	}
	depth := EvenRows(p.k, p.deepest())
	for l := 0; l < p.k; l += depth {
		t.k = min(depth, p.k-l)
		t.a, t.c, t.tail = &p.a.data[l], &p.c[0], p.Mask((t.k-1)%width+1)
		PackPanels(p.TileShape, p.b.data[l*p.b.row:], p.b.col, p.b.row, p.n, t.k, p.n, scratch)
		if p.f.ReLU && l+t.k == p.k {
			t.floor = 0
		}
		runNarrow(p.Lanes, p.n, &t)
		t.bias, t.add = &noBias[0], 1
	}
	if rows < p.m {
		q := *p
		q.m, q.a.data, q.c = p.m-rows, p.a.data[rows*p.a.row:], p.c[rows*p.ldc:]
		q.run(scratch)
	}
}
