package kernel

// The functions of this file choose between the assembly of AVX2 and AVX-512.
// They are for float32, and len is a multiple of vectorBlock.

func vecAdd(a, b, dst []float32) {
	if active == AVX512 {
		addAVX512(&a[0], &b[0], &dst[0], len(dst))
	} else {
		addAVX2(&a[0], &b[0], &dst[0], len(dst))
	}
}

func vecMul(a, b, dst []float32) {
	if active == AVX512 {
		mulAVX512(&a[0], &b[0], &dst[0], len(dst))
	} else {
		mulAVX2(&a[0], &b[0], &dst[0], len(dst))
	}
}

func vecScale(dst []float32, alpha float32) {
	if active == AVX512 {
		scaleAVX512(&dst[0], alpha, len(dst))
	} else {
		scaleAVX2(&dst[0], alpha, len(dst))
	}
}

func vecAxpy(dst []float32, alpha float32, src []float32) {
	if active == AVX512 {
		axpyAVX512(&dst[0], alpha, &src[0], len(dst))
	} else {
		axpyAVX2(&dst[0], alpha, &src[0], len(dst))
	}
}

func vecReLU(x, y []float32) {
	if active == AVX512 {
		reluAVX512(&x[0], &y[0], len(x))
	} else {
		reluAVX2(&x[0], &y[0], len(x))
	}
}

func vecReLUGrad(y, dy, dx []float32) {
	if active == AVX512 {
		reluGradAVX512(&y[0], &dy[0], &dx[0], len(y))
	} else {
		reluGradAVX2(&y[0], &dy[0], &dx[0], len(y))
	}
}

func vecSGDMomentum(p, g, buf []float32, lr, momentum, undamped, weightDecay float32) {
	if active == AVX512 {
		sgdMomentumAVX512(&p[0], &g[0], &buf[0], lr, momentum, undamped, weightDecay, len(p))
	} else {
		sgdMomentumAVX2(&p[0], &g[0], &buf[0], lr, momentum, undamped, weightDecay, len(p))
	}
}

func vecSubMulAdd(x []float32, mean, scale, shift float32, y []float32) {
	if active == AVX512 {
		subMulAddAVX512(&x[0], mean, scale, shift, &y[0], len(x))
	} else {
		subMulAddAVX2(&x[0], mean, scale, shift, &y[0], len(x))
	}
}

func vecNormGrad(x, dy []float32, mean, meanDy, slope, scale float32, dx []float32) {
	if active == AVX512 {
		normGradAVX512(&x[0], &dy[0], mean, meanDy, slope, scale, &dx[0], len(x))
	} else {
		normGradAVX2(&x[0], &dy[0], mean, meanDy, slope, scale, &dx[0], len(x))
	}
}

func vecSum(x []float32) float64 {
	if active == AVX512 {
		return sumAVX512(&x[0], len(x))
	}
	return sumAVX2(&x[0], len(x))
}

func vecSumSqDiff(x []float32, mean float64) float64 {
	if active == AVX512 {
		return sumSqDiffAVX512(&x[0], mean, len(x))
	}
	return sumSqDiffAVX2(&x[0], mean, len(x))
}

func vecSumAndDot(dy, x []float32, mean float64) (sum, dot float64) {
	if active == AVX512 {
		return sumAndDotAVX512(&dy[0], &x[0], mean, len(x))
	}
	return sumAndDotAVX2(&dy[0], &x[0], mean, len(x))
}

func vecToF16(src []float32, dst []uint16) {
	if active == AVX512 {
		f16From32AVX512(&src[0], &dst[0], len(src))
	} else {
		f16From32AVX2(&src[0], &dst[0], len(src))
	}
}

func vecFromF16(dst []float32, src []uint16) {
	if active == AVX512 {
		f16To32AVX512(&dst[0], &src[0], len(dst))
	} else {
		f16To32AVX2(&dst[0], &src[0], len(dst))
	}
}

func vecToBF16(src []float32, dst []uint16) {
	if active == AVX512 {
		bf16From32AVX512(&src[0], &dst[0], len(src))
	} else {
		bf16From32AVX2(&src[0], &dst[0], len(src))
	}
}

func vecFromBF16(dst []float32, src []uint16) {
	if active == AVX512 {
		bf16To32AVX512(&dst[0], &src[0], len(dst))
	} else {
		bf16To32AVX2(&dst[0], &src[0], len(dst))
	}
}

func vecAddF16(dst, src []uint16) {
	if active == AVX512 {
		f16AddAVX512(&dst[0], &src[0], len(dst))
	} else {
		f16AddAVX2(&dst[0], &src[0], len(dst))
	}
}

func vecAddBF16(dst, src []uint16) {
	if active == AVX512 {
		bf16AddAVX512(&dst[0], &src[0], len(dst))
	} else {
		bf16AddAVX2(&dst[0], &src[0], len(dst))
	}
}

func vecAccumulateF16(dst []float32, src []uint16) {
	if active == AVX512 {
		f16AccumulateAVX512(&dst[0], &src[0], len(dst))
	} else {
		f16AccumulateAVX2(&dst[0], &src[0], len(dst))
	}
}

func vecAccumulateBF16(dst []float32, src []uint16) {
	if active == AVX512 {
		bf16AccumulateAVX512(&dst[0], &src[0], len(dst))
	} else {
		bf16AccumulateAVX2(&dst[0], &src[0], len(dst))
	}
}

func runAdam(s *adamStep) {
	if active == AVX512 {
		adamAVX512(s)
	} else {
		adamAVX2(s)
	}
}

func runPoolTile(t *poolTile) {
	if active == AVX512 {
		maxPool2AVX512(t)
	} else {
		maxPool2AVX2(t)
	}
}

// The passes of batch norm, ReLU and pooling in one exist for AVX-512 alone.

func runNormPoolTile(t *poolTile) { normPool2AVX512(t) }

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

func packAcross(rows int, src *float32, stride, k int, tail laneCount, dst *float32, step int) {
	if active == AVX512 {
		packAcrossAVX512(rows, src, stride, k, uintptr(tail), dst, step)
	} else {
		packAcrossAVX2(rows, src, stride, k, uintptr(tail), dst, step)
	}
}

func packAlong(k int, src *float32, stride int, n laneCount, dst *float32, step int) {
	if active == AVX512 {
		packAlongAVX512(k, src, stride, uintptr(n), dst, step)
	} else {
		packAlongAVX2(k, src, stride, uintptr(n), dst, step)
	}
}

// vecMoments is about a plane: a mean in float32, and the sums of differences from
// it and of their squares.
func vecMoments(x []float32, s *planeSize) (mean, diff, square float32) {
	if active == AVX512 {
		return momentsAVX512(&x[0], s.vectors, uintptr(s.tail), float32(s.share), 4*s.ahead)
	}
	return momentsAVX2(&x[0], s.vectors, uintptr(s.tail), float32(s.share), 4*s.ahead)
}

func runDotTile(t *dotTile) {
	if active == AVX512 {
		dotTileAVX512(t)
	} else {
		dotTileAVX2(t)
	}
}

// runTile computes a tile of the given height.
func runTile(rows int, t *tile) {
	if active == AVX512 {
		runTileAVX512(rows, t)
	} else {
		runTileAVX2(rows, t)
	}
}

func runTileAVX2(rows int, t *tile) {
	switch rows {
	case 1:
		tile1AVX2(t)
	case 2:
		tile2AVX2(t)
	case 3:
		tile3AVX2(t)
	case 4:
		tile4AVX2(t)
	case 5:
		tile5AVX2(t)
	case 6:
		tile6AVX2(t)
	}
}

func runTileAVX512(rows int, t *tile) {
	switch rows {
	case 1:
		tile1AVX512(t)
	case 2:
		tile2AVX512(t)
	case 3:
		tile3AVX512(t)
	case 4:
		tile4AVX512(t)
	case 5:
		tile5AVX512(t)
	case 6:
		tile6AVX512(t)
	case 7:
		tile7AVX512(t)
	case 8:
		tile8AVX512(t)
	case 9:
		tile9AVX512(t)
	case 10:
		tile10AVX512(t)
	case 11:
		tile11AVX512(t)
	case 12:
		tile12AVX512(t)
	case 13:
		tile13AVX512(t)
	case 14:
		tile14AVX512(t)
	}
}
