package random

import "github.com/trainctl/trainctl/core/engine/kernel"

func vecNoise(dst []float32, key uint64, scale float32) {
	if kernel.Wide() {
		noiseAVX512(&dst[0], key, scale, &noiseConstants[0], len(dst))
	} else {
		noiseAVX2(&dst[0], key, scale, &noiseConstants[0], len(dst))
	}
}
