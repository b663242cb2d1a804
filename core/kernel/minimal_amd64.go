package kernel

// The kernels of minimal filtering exist for AVX-512 alone: with 6 points for
// filters of 3×3, with 8 for 5×5.

// dataToPoints evaluates tiles of points×points pixels.
func dataToPoints(points int, t *transform) {
	if points == 6 {
		dataTo6PointsAVX512(t)
	} else {
		dataTo8PointsAVX512(t)
	}
}

// filterToPoints evaluates filters of n×n taps.
func filterToPoints(n, points int, t *transform) {
	switch {
	case points == 6 && n == 3:
		filter3To6PointsAVX512(t)
	case points == 6:
		filter4To6PointsAVX512(t)
	case n == 4:
		filter4To8PointsAVX512(t)
	default:
		filter5To8PointsAVX512(t)
	}
}

// pointsTo interpolates to n×n outputs.
func pointsTo(points, n int, t *transform) {
	switch {
	case points == 6 && n == 3:
		points6To3AVX512(t)
	case points == 6:
		points6To4AVX512(t)
	case n == 4:
		points8To4AVX512(t)
	default:
		points8To5AVX512(t)
	}
}

// pointRows multiplies tiles with vecs vectors of output channels.
func pointRows(vecs int, t *pointTile) {
	if vecs == 1 {
		pointRows1AVX512(t)
	} else {
		pointRows2AVX512(t)
	}
}

// pointCols multiplies input channels with vecs vectors of output channels, summed over tiles.
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

// lanesOntoPlanes adds where lanesToPlanes overwrites.
func lanesOntoPlanes(rows int, src *float32, stride int, dst *float32, plane, width int, n laneCount) {
	lanesOntoPlanesAVX512(rows, src, stride, dst, plane, width, uintptr(n))
}
