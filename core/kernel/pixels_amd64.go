package kernel

func vecLevels(dst []float32, src []byte, sums *[5]float32) {
	if active == AVX512 {
		levelsAVX512(&dst[0], &src[0], &sums[0], len(dst))
	} else {
		levelsAVX2(&dst[0], &src[0], &sums[0], len(dst))
	}
}

func vecNoise(dst []float32, key uint64, scale float32) {
	if active == AVX512 {
		noiseAVX512(&dst[0], key, scale, &noiseConstants[0], len(dst))
	} else {
		noiseAVX2(&dst[0], key, scale, &noiseConstants[0], len(dst))
	}
}
