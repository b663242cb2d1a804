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

func vecHalfNorm(x, residual *uint16, residualStep int, mean, scale, shift, floor float32, y *uint16, pairs int) {
	halfNormBF16(x, residual, residualStep, mean, scale, shift, floor, y, pairs)
}

func vecHalfNormSums(x, dy, gate *uint16, gateStep int, mean float32, pairs, ahead int) (sum, dot float32) {
	return halfNormSumsBF16(x, dy, gate, gateStep, mean, pairs, 2*ahead)
}

func vecHalfNormGrad(x, dy, gate *uint16, gateStep int, scale, slope, offset float32, dx *uint16, pairs int) {
	halfNormGradBF16(x, dy, gate, gateStep, scale, slope, offset, dx, pairs)
}

func vecSubMulAdd(x []float32, mean, scale, shift float32, y []float32) {
	if kernel.Wide() {
		subMulAddAVX512(&x[0], mean, scale, shift, &y[0], len(x))
	} else {
		subMulAddAVX2(&x[0], mean, scale, shift, &y[0], len(x))
	}
}

func vecNormGrad(x, dy []float32, mean, meanDy, slope, scale float32, dx []float32) {
	if kernel.Wide() {
		normGradAVX512(&x[0], &dy[0], mean, meanDy, slope, scale, &dx[0], len(x))
	} else {
		normGradAVX2(&x[0], &dy[0], mean, meanDy, slope, scale, &dx[0], len(x))
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

// vecMoments is about a plane: a mean in float32, and the sums of differences from
// it and of their squares.
func vecMoments(x []float32, s *planeSize) (mean, diff, square float32) {
	if kernel.Wide() {
		return momentsAVX512(&x[0], s.vectors, uintptr(s.tail), float32(s.share), 4*s.ahead)
	}
	return momentsAVX2(&x[0], s.vectors, uintptr(s.tail), float32(s.share), 4*s.ahead)
}
