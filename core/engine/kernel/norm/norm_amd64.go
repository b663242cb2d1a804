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

func normPoolSums(vectors int, t *poolGradTile) {
	switch vectors {
	case 1:
		normPoolSums1AVX512(t)
	case 2:
		normPoolSums2AVX512(t)
	case 3:
		normPoolSums3AVX512(t)
	case 4:
		normPoolSums4AVX512(t)
	}
}

func normPoolGrad(vectors int, t *poolGradTile) {
	switch vectors {
	case 1:
		normPoolGrad1AVX512(t)
	case 2:
		normPoolGrad2AVX512(t)
	case 3:
		normPoolGrad3AVX512(t)
	case 4:
		normPoolGrad4AVX512(t)
	}
}
