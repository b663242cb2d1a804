package elementwise

import (
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/tensor"
)

// ReLUBF16 is ReLU of bfloat16. y may be x.
func ReLUBF16(x, y []uint16) {
	n := len(x)
	y = y[:n]
	if kernel.HasBF16() && n > 0 {
		vecHalfReLU(&x[0], &y[0], n)
		return
	}
	for i, v := range x {
		if v > 0x8000 && v <= 0xff80 { // below zero
			v = 0
		}
		y[i] = v
	}
}

// ReLUGradBF16 is ReLUGrad of bfloat16. dx may be dy.
func ReLUGradBF16(y, dy, dx []uint16) {
	n := len(y)
	dy, dx = dy[:n], dx[:n]
	if kernel.HasBF16() && n > 0 {
		vecHalfReLUGrad(&y[0], &dy[0], &dx[0], n)
		return
	}
	for i, v := range y {
		if tensor.F32FromBF16(v) <= 0 {
			dx[i] = 0
		} else {
			dx[i] = dy[i]
		}
	}
}

// ReLU6BF16 is ReLU6 of bfloat16. y may be x.
func ReLU6BF16(x, y []uint16) {
	n := len(x)
	y = y[:n]
	if kernel.HasBF16() && n > 0 {
		vecHalfReLU6(&x[0], &y[0], n)
		return
	}
	for i, v := range x {
		switch {
		case v > 0x8000 && v <= 0xff80: // below zero
			v = 0
		case v > 0x40c0 && v <= 0x7f80: // above six
			v = 0x40c0
		}
		y[i] = v
	}
}

// ReLU6GradBF16 is ReLU6Grad of bfloat16. dx may be dy.
func ReLU6GradBF16(y, dy, dx []uint16) {
	n := len(y)
	dy, dx = dy[:n], dx[:n]
	if kernel.HasBF16() && n > 0 {
		vecHalfReLU6Grad(&y[0], &dy[0], &dx[0], n)
		return
	}
	for i, v := range y {
		if v := tensor.F32FromBF16(v); v <= 0 || v >= 6 {
			dx[i] = 0
		} else {
			dx[i] = dy[i]
		}
	}
}

// AddBF16 computes dst = a + b over len(dst) elements, rounded once, subnormal
// sums to zero; dst may be a or b.
func AddBF16(a, b, dst []uint16) {
	n := len(dst)
	a, b = a[:n], b[:n]
	if kernel.HasBF16() && n > 0 {
		vecHalfAdd(&a[0], &b[0], &dst[0], n)
		return
	}
	for i, v := range a {
		dst[i] = kernel.RoundBF16(tensor.F32FromBF16(v) + tensor.F32FromBF16(b[i]))
	}
}
