package norm

import "github.com/trainctl/trainctl/core/engine/kernel"

func vecHalfMoments(x *uint16, vectors int, tail kernel.Mask, inverse float32, ahead int) (mean, diff, square float32) {
	return halfMomentsBF16(x, vectors, uintptr(tail), inverse, 2*ahead)
}

func runHalfPool(rows int, t *halfPool) {
	if rows == 1 {
		halfPool1BF16(t)
	} else {
		halfPool2BF16(t)
	}
}

func runHalfPoolSums(rows int, t *halfPoolGrad) {
	if rows == 1 {
		halfPoolSums1BF16(t)
	} else {
		halfPoolSums2BF16(t)
	}
}

func runHalfPoolGrad(rows int, t *halfPoolGrad) {
	if rows == 1 {
		halfPoolGrad1BF16(t)
	} else {
		halfPoolGrad2BF16(t)
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
