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
// [rows, cols].
func DotRows[T kernel.Float](rows, cols int, x, y, dots []T) {
	DotRowsApart(rows, cols, x, y, cols, dots)
}

// DotRowsApart is DotRows for rows that begin stride elements apart.
func DotRowsApart[T kernel.Float](rows, cols int, x, y []T, stride int, dots []T) {
	if kernel.HasVectors[T]() && rows > 0 {
		n := kernel.Lanes()
		vecRowDots(rows, kernel.Ptr32(x), kernel.Ptr32(y), cols/n, cols%n, kernel.FirstLanes(cols%n), kernel.Ptr32(dots), 4*stride)
		return
	}
	for r := range rows {
		dots[r] = dot(x[r*stride:][:cols], y[r*stride:][:cols])
	}
}

// VectorDots writes the dot product of each row of x, which begin stride elements apart,
// with the vector y: a product of a matrix and a vector.
func VectorDots[T kernel.Float](rows, cols int, x []T, stride int, y, dots []T) {
	if kernel.HasVectors[T]() && rows > 0 {
		n := kernel.Lanes()
		vecVectorDots(rows, kernel.Ptr32(x), kernel.Ptr32(y), cols/n, cols%n, kernel.FirstLanes(cols%n), kernel.Ptr32(dots), 4*stride)
		return
	}
	for r := range rows {
		dots[r] = dot(x[r*stride:][:cols], y)
	}
}

// dot adds up in float64.
func dot[T kernel.Float](x, y []T) T {
	var sum float64
	for j, v := range x {
		sum += float64(v) * float64(y[j])
	}
	return T(sum)
}

// FillRows sets each row of y [rows, cols] to its value.
func FillRows[T kernel.Float](rows, cols int, values, y []T) {
	done := 0
	if vectors := wholeVectors[T](cols); vectors > 0 && rows*cols >= vectors*kernel.Lanes() {
		done = (rows*cols-vectors*kernel.Lanes())/cols + 1 // whose vectors end within y
		vecFillRows(done, kernel.Ptr32(y), vectors, kernel.Ptr32(values), 4*cols)
	}
	for r := done; r < rows; r++ {
		Fill(y[r*cols:][:cols], values[r])
	}
}

// wholeVectors is how many cover n elements, 0 without vectors of T.
func wholeVectors[T kernel.Float](n int) int {
	if !kernel.HasVectors[T]() {
		return 0
	}
	return kernel.CeilDiv(n, kernel.Lanes())
}
