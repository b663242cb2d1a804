package gemm

import "github.com/trainctl/trainctl/core/engine/kernel"

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
		p.k >= turnedFrom && p.m*p.n <= turnedElems && 8*stepCycles(p.n, p.m) < 7*stepCycles(p.m, p.n)
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
