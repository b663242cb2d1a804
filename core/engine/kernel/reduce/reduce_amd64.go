package reduce

import "github.com/trainctl/trainctl/core/engine/kernel"

func vecSum(x []float32) float64 {
	if kernel.Wide() {
		return sumAVX512(&x[0], len(x))
	}
	return sumAVX2(&x[0], len(x))
}

func vecSumSqDiff(x []float32, mean float64) float64 {
	if kernel.Wide() {
		return sumSqDiffAVX512(&x[0], mean, len(x))
	}
	return sumSqDiffAVX2(&x[0], mean, len(x))
}

func vecSumAndDot(dy, x []float32, mean float64) (sum, dot float64) {
	if kernel.Wide() {
		return sumAndDotAVX512(&dy[0], &x[0], mean, len(x))
	}
	return sumAndDotAVX2(&dy[0], &x[0], mean, len(x))
}

func vecAddF16(dst, src []uint16) {
	if kernel.Wide() {
		f16AddAVX512(&dst[0], &src[0], len(dst))
	} else {
		f16AddAVX2(&dst[0], &src[0], len(dst))
	}
}

func vecAddBF16(dst, src []uint16) {
	if kernel.Wide() {
		bf16AddAVX512(&dst[0], &src[0], len(dst))
	} else {
		bf16AddAVX2(&dst[0], &src[0], len(dst))
	}
}

func vecAccumulateF16(dst []float32, src []uint16) {
	if kernel.Wide() {
		f16AccumulateAVX512(&dst[0], &src[0], len(dst))
	} else {
		f16AccumulateAVX2(&dst[0], &src[0], len(dst))
	}
}

func vecAccumulateBF16(dst []float32, src []uint16) {
	if kernel.Wide() {
		bf16AccumulateAVX512(&dst[0], &src[0], len(dst))
	} else {
		bf16AccumulateAVX2(&dst[0], &src[0], len(dst))
	}
}
