package loss

import (
	"math"

	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/elementwise"
)

// largest is the largest of x that is not NaN, or −∞.
func largest[T kernel.Float](x []T) T {
	if kernel.Vectors[T](len(x)) {
		n := kernel.Lanes()
		var peak float32
		vecLargest(kernel.Ptr32(x), len(x)/n, kernel.FirstLanes(len(x)%n), &peak)
		return T(peak)
	}
	top := T(math.Inf(-1))
	for _, v := range x {
		if v > top {
			top = v
		}
	}
	return top
}

// expRows finds the largest element of each row of x [rows, cols], which is its peak, and Σexp(x−peak). It
// stores the exponentials in y, which may be x, unless that is nil. Element j of float32 goes to
// sum j mod 8 of a row, at every level.
func expRows[T kernel.Float](rows, cols int, x, y, peaks []T, sums []float64) {
	if kernel.Vectors[T](rows * cols) {
		n := kernel.Lanes()
		tail := kernel.FirstLanes(cols % n)
		if y == nil {
			vecExpSums(rows, kernel.Ptr32(x), cols/n, cols%n, tail, kernel.Ptr32(peaks), &sums[0], 4*cols)
		} else {
			vecExpRows(rows, kernel.Ptr32(x), kernel.Ptr32(y), cols/n, cols%n, tail, kernel.Ptr32(peaks), &sums[0], 4*cols)
		}
		return
	}
	for r := range rows {
		row := x[r*cols:][:cols]
		peaks[r] = largest(row)
		var out []T
		if y != nil {
			out = y[r*cols:][:cols]
		}
		sums[r] = expSum(row, peaks[r], out)
	}
}

func expSum[T kernel.Float](x []T, peak T, y []T) float64 {
	var sums [8]float64
	for j, v := range x {
		var e T
		if kernel.Is32[T]() {
			e = T(elementwise.Exp32(float32(v - peak)))
		} else {
			e = T(math.Exp(float64(v - peak)))
		}
		sums[j%8] += float64(e)
		if y != nil {
			y[j] = e
		}
	}
	return ((sums[0] + sums[4]) + (sums[2] + sums[6])) + ((sums[1] + sums[5]) + (sums[3] + sums[7]))
}

// scaleRows replaces each row of y [rows, cols] by y·factor − less.
func scaleRows[T kernel.Float](rows, cols int, y, factors []T, less T) {
	if kernel.Vectors[T](rows * cols) {
		n := kernel.Lanes()
		vecScaleRows(rows, kernel.Ptr32(y), cols/n, cols%n, kernel.FirstLanes(cols%n), kernel.Ptr32(factors), float32(less), 4*cols)
		return
	}
	for r, factor := range factors[:rows] {
		row := y[r*cols:][:cols]
		for j, e := range row {
			row[j] = T(e*factor) - less
		}
	}
}

// Rows are taken in chunks that stay in the L1 or L2 cache between their passes.
const (
	chunkRows  = 64
	chunkElems = 8192
)

func chunkOf(cols int) int { return max(1, min(chunkRows, chunkElems/max(1, cols))) }

// Softmax computes y = exp(x)/Σexp(x) of each row of x [rows, cols]. y may be x.
func Softmax[T kernel.Float](rows, cols int, x, y []T) {
	var peaks, factors [chunkRows]T
	var sums [chunkRows]float64
	for chunk := chunkOf(cols); rows > 0; rows -= chunk {
		n := min(chunk, rows)
		expRows(n, cols, x, y, peaks[:], sums[:])
		for r, sum := range sums[:n] {
			factors[r] = T(1 / sum)
		}
		scaleRows(n, cols, y, factors[:], 0)
		x, y = x[n*cols:], y[n*cols:]
	}
}

// SoftmaxGrad computes dx = y·(dy − Σy·dy) of each row, from the softmax y. dx may be dy.
func SoftmaxGrad[T kernel.Float](rows, cols int, y, dy, dx []T) {
	var dots [chunkRows]T
	for chunk := chunkOf(cols); rows > 0; rows -= chunk {
		n := min(chunk, rows)
		elementwise.DotRows(n, cols, y, dy, dots[:])
		elementwise.Mul(dy, y, dx[:n*cols])
		for r, dot := range dots[:n] {
			elementwise.Axpy(dx[r*cols:][:cols], -dot, y[r*cols:][:cols])
		}
		y, dy, dx = y[n*cols:], dy[n*cols:], dx[n*cols:]
	}
}
