package elementwise

import "github.com/trainctl/trainctl/core/engine/kernel"

// Fill sets every element of dst to v.
func Fill[T kernel.Float](dst []T, v T) {
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

// BiasAdd adds bias [cols] to each row of x [rows, cols].
func BiasAdd[T kernel.Float](rows, cols int, x, bias []T) {
	for r := range rows {
		AddTo(x[r*cols:][:cols], bias)
	}
}

// BiasGrad sums the rows of dy [rows, cols], and writes or adds them to db [cols].
func BiasGrad[T kernel.Float](rows, cols int, dy, db []T, accumulate bool) {
	if !accumulate {
		clear(db[:cols])
	}
	for r := range rows {
		AddTo(db[:cols], dy[r*cols:][:cols])
	}
}
