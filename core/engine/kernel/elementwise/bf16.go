package elementwise

// Elementwise passes over bfloat16; all need HasBF16.

// ReLUBF16 is ReLU of bfloat16. y may be x.
func ReLUBF16(x, y []uint16) {
	if n := len(x); n > 0 {
		vecHalfReLU(&x[0], &y[:n][0], n)
	}
}

// ReLUGradBF16 is ReLUGrad of bfloat16. dx may be dy.
func ReLUGradBF16(y, dy, dx []uint16) {
	if n := len(y); n > 0 {
		vecHalfReLUGrad(&y[0], &dy[:n][0], &dx[:n][0], n)
	}
}

// AddBF16 computes dst = a + b over len(dst) elements, rounded once, subnormal
// sums to zero; dst may be a or b.
func AddBF16(a, b, dst []uint16) {
	if n := len(dst); n > 0 {
		vecHalfAdd(&a[:n][0], &b[:n][0], &dst[0], n)
	}
}
