package conv

import "github.com/trainctl/trainctl/core/engine/kernel"

// The kernels of Winograd exist for AVX-512 alone: with 6 points for
// filters of 3×3, with 8 for 5×5, with 10 and 11 for those of larger tiles, and with 9 for
// 3×3 with stride 2.

// dataToPoints evaluates tiles of pixels×pixels.
func dataToPoints(pixels, points int, t *transform) {
	switch [2]int{pixels, points} {
	case [2]int{1, 1}:
		copyVectors(t)
	case [2]int{6, 6}:
		dataTo6PointsAVX512(t)
	case [2]int{8, 8}:
		dataTo8PointsAVX512(t)
	case [2]int{5, 9}:
		data5To9PointsAVX512(t)
	case [2]int{9, 9}:
		data9To9PointsAVX512(t)
	case [2]int{10, 10}:
		dataTo10PointsBF16(t)
	case [2]int{11, 11}:
		dataTo11PointsBF16(t)
	}
}

// filterToPoints evaluates filters of n×n taps.
func filterToPoints(n, points int, t *transform) {
	switch [2]int{n, points} {
	case [2]int{1, 1}:
		copyVectors(t)
	case [2]int{3, 6}:
		filter3To6PointsAVX512(t)
	case [2]int{4, 6}:
		filter4To6PointsAVX512(t)
	case [2]int{4, 8}:
		filter4To8PointsAVX512(t)
	case [2]int{5, 8}:
		filter5To8PointsAVX512(t)
	case [2]int{3, 9}:
		filter3To9PointsAVX512(t)
	case [2]int{4, 9}:
		filter4To9PointsAVX512(t)
	case [2]int{3, 10}:
		filter3To10PointsBF16(t)
	case [2]int{8, 10}:
		filter8To10PointsBF16(t)
	case [2]int{5, 11}:
		filter5To11PointsBF16(t)
	case [2]int{7, 11}:
		filter7To11PointsBF16(t)
	}
}

// pointsTo interpolates to n×n outputs. A single point is the first of them, and
// the others are left alone.
func pointsTo(points, n int, t *transform) {
	if points == 1 {
		copyVectors(t)
		return
	}
	switch [2]int{points, n} {
	case [2]int{6, 3}:
		points6To3AVX512(t)
	case [2]int{6, 4}:
		points6To4AVX512(t)
	case [2]int{8, 4}:
		points8To4AVX512(t)
	case [2]int{8, 5}:
		points8To5AVX512(t)
	case [2]int{9, 3}:
		points9To3AVX512(t)
	case [2]int{9, 4}:
		points9To4AVX512(t)
	case [2]int{9, 8}:
		points9To8AVX512(t)
	case [2]int{10, 3}:
		points10To3BF16(t)
	case [2]int{10, 8}:
		points10To8BF16(t)
	case [2]int{11, 5}:
		points11To5BF16(t)
	case [2]int{11, 7}:
		points11To7BF16(t)
	}
}

// copyVectors is the transform of a square of one vector.
func copyVectors(t *transform) {
	copyRunsAVX512(t.count, 1, t.in, t.inStep, t.out, t.outStep)
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

func planesToLanes(rows int, src *float32, plane, width int, n kernel.Mask, dst *float32, stride, ahead int) {
	planesToLanesAVX512(rows, src, plane, width, uintptr(n), dst, stride, ahead)
}

func lanesToPlanes(rows int, src *float32, stride int, bias, dst *float32, plane, width int, n kernel.Mask) {
	lanesToPlanesAVX512(rows, src, stride, bias, dst, plane, width, uintptr(n))
}

// lanesOntoPlanes adds where lanesToPlanes overwrites.
func lanesOntoPlanes(rows int, src *float32, stride int, dst *float32, plane, width int, n kernel.Mask) {
	lanesOntoPlanesAVX512(rows, src, stride, dst, plane, width, uintptr(n))
}

func halfPlanesToLanes(rows int, src *uint16, plane, width int, n kernel.Mask, dst *float32, stride, ahead int) {
	halfPlanesToLanesBF16(rows, src, plane, width, uintptr(n), dst, stride, ahead)
}

func lanesToHalfPlanes(rows int, src *float32, stride int, bias *float32, dst *uint16, plane, width int, n kernel.Mask) {
	lanesToHalfPlanesBF16(rows, src, stride, bias, dst, plane, width, uintptr(n))
}
