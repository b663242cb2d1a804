package kernel

// The kernels that read and write bfloat16 exist for AVX-512 with its extension alone.

func packPairs(pairs int, even, odd *uint16, stride int, n laneCount, dst *float32, step int) {
	packPairsBF16(pairs, even, odd, stride, uintptr(n), dst, step)
}

func runPairMultiplyAdds(rounds int) { multiplyAddsBF16(rounds) }

// runPairTile computes a tile of the given height from pairs of bfloat16.
func runPairTile(rows int, t *tile) {
	switch rows {
	case 1:
		tile1BF16(t)
	case 2:
		tile2BF16(t)
	case 3:
		tile3BF16(t)
	case 4:
		tile4BF16(t)
	case 5:
		tile5BF16(t)
	case 6:
		tile6BF16(t)
	case 7:
		tile7BF16(t)
	case 8:
		tile8BF16(t)
	case 9:
		tile9BF16(t)
	case 10:
		tile10BF16(t)
	case 11:
		tile11BF16(t)
	case 12:
		tile12BF16(t)
	case 13:
		tile13BF16(t)
	case 14:
		tile14BF16(t)
	}
}

func halfPlanesToLanes(rows int, src *uint16, plane, width int, n laneCount, dst *float32, stride, ahead int) {
	halfPlanesToLanesBF16(rows, src, plane, width, uintptr(n), dst, stride, ahead)
}

func lanesToHalfPlanes(rows int, src *float32, stride int, bias *float32, dst *uint16, plane, width int, n laneCount) {
	lanesToHalfPlanesBF16(rows, src, stride, bias, dst, plane, width, uintptr(n))
}

// runRoundedTile computes a tile of the given height from pairs of bfloat16, and rounds it.
func runRoundedTile(rows int, t *tile) {
	switch rows {
	case 1:
		roundedTile1BF16(t)
	case 2:
		roundedTile2BF16(t)
	case 3:
		roundedTile3BF16(t)
	case 4:
		roundedTile4BF16(t)
	case 5:
		roundedTile5BF16(t)
	case 6:
		roundedTile6BF16(t)
	case 7:
		roundedTile7BF16(t)
	case 8:
		roundedTile8BF16(t)
	case 9:
		roundedTile9BF16(t)
	case 10:
		roundedTile10BF16(t)
	case 11:
		roundedTile11BF16(t)
	case 12:
		roundedTile12BF16(t)
	case 13:
		roundedTile13BF16(t)
	case 14:
		roundedTile14BF16(t)
	}
}

func runPairDots(t *dotTile) { dotTileBF16(t) }

func vecHalfMoments(x *uint16, vectors int, tail laneCount, inverse float32, ahead int) (mean, diff, square float32) {
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

func vecHalfReLU(x, y *uint16, n int)               { halfReLUBF16(x, y, n) }
func vecHalfReLUGrad(y, dy, dx *uint16, n int)      { halfReLUGradBF16(y, dy, dx, n) }
func vecHalfAdd(x, y, sum *uint16, n int)           { halfAddBF16(x, y, sum, n) }
func vecGateRow(x *float32, gate, y *uint16, n int) { gateRowBF16(x, gate, y, n) }
func vecFinishRow(x, bias *float32, biasStep int, floor float32, y *uint16, n int) {
	finishRowBF16(x, bias, biasStep, floor, y, n)
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
