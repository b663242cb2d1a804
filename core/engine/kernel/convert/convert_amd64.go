package convert

import "github.com/trainctl/trainctl/core/engine/kernel"

func vecToF16(src []float32, dst []uint16) {
	if kernel.Wide() {
		f16From32AVX512(&src[0], &dst[0], len(src))
	} else {
		f16From32AVX2(&src[0], &dst[0], len(src))
	}
}

func vecFromF16(dst []float32, src []uint16) {
	if kernel.Wide() {
		f16To32AVX512(&dst[0], &src[0], len(dst))
	} else {
		f16To32AVX2(&dst[0], &src[0], len(dst))
	}
}

func vecToBF16(src []float32, dst []uint16) {
	if kernel.Wide() {
		bf16From32AVX512(&src[0], &dst[0], len(src))
	} else {
		bf16From32AVX2(&src[0], &dst[0], len(src))
	}
}

func vecFromBF16(dst []float32, src []uint16) {
	if kernel.Wide() {
		bf16To32AVX512(&dst[0], &src[0], len(dst))
	} else {
		bf16To32AVX2(&dst[0], &src[0], len(dst))
	}
}
