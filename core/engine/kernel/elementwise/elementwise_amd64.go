package elementwise

import "github.com/trainctl/trainctl/core/engine/kernel"

func vecHalfReLU(x, y *uint16, n int) { halfReLUBF16(x, y, n) }

func vecHalfReLUGrad(y, dy, dx *uint16, n int) { halfReLUGradBF16(y, dy, dx, n) }

func vecHalfAdd(x, y, sum *uint16, n int) { halfAddBF16(x, y, sum, n) }

func vecSigmoid(x, y []float32) {
	groups, full, tail := kernel.Octets(len(x))
	if kernel.Wide() {
		sigmoidAVX512(groups, uintptr(full), uintptr(tail), &x[0], &y[0])
	} else {
		sigmoidAVX2(groups, uintptr(full), uintptr(tail), &x[0], &y[0])
	}
}

func vecTanh(x, y []float32) {
	groups, full, tail := kernel.Octets(len(x))
	if kernel.Wide() {
		tanhAVX512(groups, uintptr(full), uintptr(tail), &x[0], &y[0])
	} else {
		tanhAVX2(groups, uintptr(full), uintptr(tail), &x[0], &y[0])
	}
}

func vecAdd(a, b, dst []float32) {
	if kernel.Wide() {
		addAVX512(&a[0], &b[0], &dst[0], len(dst))
	} else {
		addAVX2(&a[0], &b[0], &dst[0], len(dst))
	}
}

func vecMul(a, b, dst []float32) {
	if kernel.Wide() {
		mulAVX512(&a[0], &b[0], &dst[0], len(dst))
	} else {
		mulAVX2(&a[0], &b[0], &dst[0], len(dst))
	}
}

func vecScale(dst []float32, alpha float32) {
	if kernel.Wide() {
		scaleAVX512(&dst[0], alpha, len(dst))
	} else {
		scaleAVX2(&dst[0], alpha, len(dst))
	}
}

func vecAxpy(dst []float32, alpha float32, src []float32) {
	if kernel.Wide() {
		axpyAVX512(&dst[0], alpha, &src[0], len(dst))
	} else {
		axpyAVX2(&dst[0], alpha, &src[0], len(dst))
	}
}

func vecReLU(x, y []float32) {
	if kernel.Wide() {
		reluAVX512(&x[0], &y[0], len(x))
	} else {
		reluAVX2(&x[0], &y[0], len(x))
	}
}

func vecReLUGrad(y, dy, dx []float32) {
	if kernel.Wide() {
		reluGradAVX512(&y[0], &dy[0], &dx[0], len(y))
	} else {
		reluGradAVX2(&y[0], &dy[0], &dx[0], len(y))
	}
}
