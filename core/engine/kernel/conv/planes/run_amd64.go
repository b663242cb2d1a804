package planes

// Planes that are narrower than the widest vector use the kernels of eight lanes.

// runPlaneTile computes groups of that many vectors.
func runPlaneTile(lanes, vectors int, t *planeTile) {
	switch lanes + vectors {
	case 8 + 8:
		planeTile8AVX2(t)
	case 8 + 4:
		planeTile4AVX2(t)
	case 8 + 2:
		planeTile2AVX2(t)
	case 8 + 1:
		planeTile1AVX2(t)
	case 16 + 8:
		planeTile8AVX512(t)
	case 16 + 4:
		planeTile4AVX512(t)
	case 16 + 2:
		planeTile2AVX512(t)
	case 16 + 1:
		planeTile1AVX512(t)
	}
}

func runPlaneDots(lanes int, t *planeDots) {
	if lanes == 16 {
		planeDotsAVX512(t)
	} else {
		planeDotsAVX2(t)
	}
}
