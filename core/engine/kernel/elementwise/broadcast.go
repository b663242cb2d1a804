package elementwise

import "github.com/trainctl/trainctl/core/engine/kernel"

// MulRows multiplies each row of x [rows, cols] by its factor, into y, which may be x.
func MulRows[T kernel.Float](rows, cols int, x, factors, y []T) {
	for r := range rows {
		row := y[r*cols:][:cols]
		copy(row, x[r*cols:][:cols])
		Scale(row, factors[r])
	}
}

// DotRows writes the dot product of each row of x with the same row of y, both
// [rows, cols], adding up as RowSums does within blocks of a row.
func DotRows[T kernel.Float](rows, cols int, x, y, dots []T) {
	const block = 512
	var products [block]T
	var sum [1]T
	for r := range rows {
		a, b := x[r*cols:][:cols], y[r*cols:][:cols]
		dots[r] = 0
		for len(a) > 0 {
			n := min(block, len(a))
			Mul(a[:n], b[:n], products[:n])
			RowSums(1, n, products[:n], sum[:])
			dots[r] += sum[0]
			a, b = a[n:], b[n:]
		}
	}
}
