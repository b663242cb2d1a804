package gemm

import "github.com/trainctl/trainctl/core/engine/kernel"

// Products whose few columns would leave half of each vector of AVX-512 empty, on cores that compute such vectors whole:
// the rows of C go to the lanes instead. Every element adds up in the same order as otherwise.

// narrowColumns reports whether the columns of C fill at most half of a vector that is computed whole.
func narrowColumns(n int) bool {
	return kernel.Wide() && !kernel.Halves() && 2*n <= kernel.Lanes()
}

// turnedElems bounds the elements of C that runTurned copies.
const turnedElems = 1 << 14

// turns reports whether runTurned computes a product of k rows: k runs down the columns of both matrices.
func (p *product) turns() bool {
	return p.alpha == 1 && p.a.row == 1 && p.b.col == 1 && p.f.Bias == nil && !p.f.ReLU && p.f.Gate == nil &&
		narrowColumns(p.n) && p.m > p.Lanes && p.m*p.n <= turnedElems
}

// runTurned computes the transpose Bᵀ·A of C.
func (p *product) runTurned(scratch []float32) {
	turned, rest := scratch[:p.m*p.n], scratch[p.m*p.n:]
	q := *p
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

// turnedScratch is the room for the transpose of C.
func turnedScratch(m, n int) int {
	if !narrowColumns(n) || m*n > turnedElems {
		return 0
	}
	return m * n
}
