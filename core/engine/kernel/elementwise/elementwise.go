package elementwise

import "github.com/trainctl/trainctl/core/engine/kernel"

// Fill sets every element of dst to v.
func Fill[T kernel.Float](dst []T, v T) {
	if n := kernel.HeadOf[T](len(dst)); n > 0 {
		value := float32(v)
		vecFillRows(1, kernel.Ptr32(dst), n/kernel.Lanes(), &value, 0)
		dst = dst[n:]
	}
	for i := range dst {
		dst[i] = v
	}
}

// Add computes dst = a + b over len(dst) elements; dst may be a or b.
func Add[T kernel.Float](a, b, dst []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	if n := kernel.HeadOf[T](len(dst)); n > 0 {
		vecAdd(kernel.Ptr32(a), kernel.Ptr32(b), kernel.Ptr32(dst), n)
		a, b, dst = a[n:], b[n:], dst[n:]
	}
	for i := range dst {
		dst[i] = a[i] + b[i]
	}
}

// AddTo computes dst += src over len(dst) elements.
func AddTo[T kernel.Float](dst, src []T) { Add(dst, src, dst) }

// Mul computes dst = a·b over len(dst) elements; dst may be a or b.
func Mul[T kernel.Float](a, b, dst []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	if n := kernel.HeadOf[T](len(dst)); n > 0 {
		vecMul(kernel.Ptr32(a), kernel.Ptr32(b), kernel.Ptr32(dst), n)
		a, b, dst = a[n:], b[n:], dst[n:]
	}
	for i := range dst {
		dst[i] = a[i] * b[i]
	}
}

// Scale computes dst *= alpha.
func Scale[T kernel.Float](dst []T, alpha T) {
	if n := kernel.HeadOf[T](len(dst)); n > 0 {
		vecScale(kernel.Ptr32(dst), float32(alpha), n)
		dst = dst[n:]
	}
	for i := range dst {
		dst[i] *= alpha
	}
}

// Axpy computes dst += alpha·src over len(dst) elements, the product rounded before the sum.
func Axpy[T kernel.Float](dst []T, alpha T, src []T) {
	src = src[:len(dst)]
	if n := kernel.HeadOf[T](len(dst)); n > 0 {
		vecAxpy(kernel.Ptr32(dst), float32(alpha), kernel.Ptr32(src), n)
		dst, src = dst[n:], src[n:]
	}
	for i := range dst {
		dst[i] += T(alpha * src[i])
	}
}

// BiasGrad sums the rows of dy [rows, cols], and writes or adds them to db [cols]. Many
// short rows are added up as fewer long ones first.
func BiasGrad[T kernel.Float](rows, cols int, dy, db []T, accumulate bool) {
	if !accumulate {
		clear(db[:cols])
	}
	if many := longRow / cols; many > 1 && rows >= 4*many {
		var sums [longRow]T
		wide := many * cols
		for ; rows >= many; rows -= many {
			AddTo(sums[:wide], dy[:wide])
			dy = dy[wide:]
		}
		addRows(many, cols, cols, sums[:wide], db)
	}
	addRows(rows, cols, cols, dy, db)
}

// longRow is the length that short rows are brought to.
const longRow = 512

// BiasGradParts is how many columns of cols BiasGradOf takes at least.
func BiasGradParts(cols int) int {
	if longRow/cols > 1 {
		return cols
	}
	return kernel.Block
}

// BiasGradOf is BiasGrad of the columns [first, end), which gives the same bits. Rows must be long: see BiasGradParts.
func BiasGradOf[T kernel.Float](rows, cols, first, end int, dy, db []T, accumulate bool) {
	if end-first == cols {
		BiasGrad(rows, cols, dy, db, accumulate)
		return
	}
	if !accumulate {
		clear(db[first:end])
	}
	addRows(rows, end-first, cols, dy[first:], db[first:end])
}

// addRows adds rows of cols elements of x, which lie step apart, to sum. Blocks of rows are added up first, because a sum of
// hundreds of numbers, one after the other, is off by as many roundings.
func addRows[T kernel.Float](rows, cols, step int, x, sum []T) {
	const block, wide = 32, 512
	if rows <= block {
		for r := range rows {
			AddTo(sum[:cols], x[r*step:][:cols])
		}
		return
	}
	var part [wide]T
	for c := 0; c < cols; c += wide {
		n := min(wide, cols-c)
		for r := 0; r < rows; r += block {
			clear(part[:n])
			for i := r; i < min(rows, r+block); i++ {
				AddTo(part[:n], x[i*step+c:][:n])
			}
			AddTo(sum[c:c+n], part[:n])
		}
	}
}

// RowSums adds up each row of x [rows, cols] to sums [rows].
func RowSums[T kernel.Float](rows, cols int, x, sums []T) {
	if kernel.HasVectors[T]() && rows > 0 {
		n := kernel.Lanes()
		vecRowSums(rows, kernel.Ptr32(x), cols/n, kernel.FirstLanes(cols%n), kernel.Ptr32(sums), 4*cols)
		return
	}
	for r := range rows {
		var sum float64
		for _, v := range x[r*cols:][:cols] {
			sum += float64(v)
		}
		sums[r] = T(sum)
	}
}
