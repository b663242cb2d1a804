package norm

import "github.com/trainctl/trainctl/core/engine/kernel"

// The functions of this file choose between the assembly of AVX2 and AVX-512;
// len is a multiple of kernel.Block.

func vecNormReLU(x, r []float32, mean, scale, shift float32, y []float32) {
	switch {
	case kernel.Wide() && r == nil:
		normReLUAVX512(&x[0], mean, scale, shift, &y[0], len(x))
	case kernel.Wide():
		normAddReLUAVX512(&x[0], &r[0], mean, scale, shift, &y[0], len(x))
	case r == nil:
		normReLUAVX2(&x[0], mean, scale, shift, &y[0], len(x))
	default:
		normAddReLUAVX2(&x[0], &r[0], mean, scale, shift, &y[0], len(x))
	}
}

func vecNormSums(dy, x []float32, mean float32, ahead int) (sum, dot float32) {
	if kernel.Wide() {
		return normSumsAVX512(&dy[0], &x[0], mean, len(dy), 4*ahead)
	}
	return normSumsAVX2(&dy[0], &x[0], mean, len(dy), 4*ahead)
}

func vecReLUSums(y, dy, x []float32, mean float32, d []float32, ahead int) (sum, dot float32) {
	switch {
	case kernel.Wide() && d == nil:
		return reluSumsAVX512(&y[0], &dy[0], &x[0], mean, len(y), 4*ahead)
	case kernel.Wide():
		return reluSumsToAVX512(&y[0], &dy[0], &x[0], mean, &d[0], len(y), 4*ahead)
	case d == nil:
		return reluSumsAVX2(&y[0], &dy[0], &x[0], mean, len(y), 4*ahead)
	}
	return reluSumsToAVX2(&y[0], &dy[0], &x[0], mean, &d[0], len(y), 4*ahead)
}

func vecReLUNormGrad(x, y, dy []float32, mean, meanDy, slope, scale float32, dx []float32) {
	if kernel.Wide() {
		reluNormGradAVX512(&x[0], &y[0], &dy[0], mean, meanDy, slope, scale, &dx[0], len(x))
	} else {
		reluNormGradAVX2(&x[0], &y[0], &dy[0], mean, meanDy, slope, scale, &dx[0], len(x))
	}
}
