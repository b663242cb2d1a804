package kernel

// The kernels of minimal filtering exist for AVX-512 alone.

func dataToPoints(t *transform) { dataToPointsAVX512(t) }

// filterToPoints evaluates filters of n×n taps.
func filterToPoints(n int, t *transform) {
	switch n {
	case 3:
		filter3ToPointsAVX512(t)
	case 4:
		filter4ToPointsAVX512(t)
	case 5:
		filter5ToPointsAVX512(t)
	case 6:
		filter6ToPointsAVX512(t)
	}
}

// pointsTo interpolates to n×n outputs.
func pointsTo(n int, t *transform) {
	switch n {
	case 3:
		pointsTo3AVX512(t)
	case 4:
		pointsTo4AVX512(t)
	case 5:
		pointsTo5AVX512(t)
	case 6:
		pointsTo6AVX512(t)
	}
}

// pointRows multiplies 8 tiles with vecs vectors of output channels.
func pointRows(vecs int, t *pointTile) {
	if vecs == 1 {
		pointRows1AVX512(t)
	} else {
		pointRows2AVX512(t)
	}
}

// pointCols multiplies 8 input channels with vecs vectors of output channels, summed over tiles.
func pointCols(vecs int, t *pointTile) {
	if vecs == 1 {
		pointCols1AVX512(t)
	} else {
		pointCols2AVX512(t)
	}
}

func planesToLanes(rows int, src *float32, plane, width int, n laneCount, dst *float32, stride int) {
	planesToLanesAVX512(rows, src, plane, width, uintptr(n), dst, stride)
}

func lanesToPlanes(rows int, src *float32, stride int, bias, dst *float32, plane, width int, n laneCount) {
	lanesToPlanesAVX512(rows, src, stride, bias, dst, plane, width, uintptr(n))
}
