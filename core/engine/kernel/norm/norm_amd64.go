package norm

import "github.com/trainctl/trainctl/core/engine/kernel"

func vecHalfMoments(x *uint16, vectors int, tail kernel.Mask, inverse float32, ahead int) (mean, diff, square float32) {
	return halfMomentsBF16(x, vectors, uintptr(tail), inverse, 2*ahead)
}

func runHalfNormPool(rows int, t *halfNormPool) {
	if rows == 1 {
		halfNormPool1BF16(t)
	} else {
		halfNormPool2BF16(t)
	}
}

func runHalfNormPoolSums(rows int, t *halfNormPoolGrad) {
	if rows == 1 {
		halfNormPoolSums1BF16(t)
	} else {
		halfNormPoolSums2BF16(t)
	}
}

func runHalfNormPoolGrad(rows int, t *halfNormPoolGrad) {
	if rows == 1 {
		halfNormPoolGrad1BF16(t)
	} else {
		halfNormPoolGrad2BF16(t)
	}
}
