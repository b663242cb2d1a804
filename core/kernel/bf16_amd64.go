package kernel

// The kernels that read and write bfloat16 exist for AVX-512 with its extension alone.

func packPairs(pairs int, even, odd *uint16, stride int, n laneCount, dst *float32, step int) {
	packPairsBF16(pairs, even, odd, stride, uintptr(n), dst, step)
}

func vecRound(src *float32, dst *uint16, n int) { roundBF16(src, dst, n) }

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

func dataTo11(t *transform) { dataTo11BF16(t) }

// filterTo11 evaluates filters of n×n taps.
func filterTo11(n int, t *transform) {
	if n == largeTaps {
		filter5To11BF16(t)
	} else {
		filter7To11BF16(t)
	}
}

// from11To interpolates to n×n outputs.
func from11To(n int, t *transform) {
	if n == largeTaps {
		from11To5BF16(t)
	} else {
		from11To7BF16(t)
	}
}

func halfPlanesToLanes(rows int, src *uint16, plane, width int, n laneCount, dst *float32, stride int) {
	halfPlanesToLanesBF16(rows, src, plane, width, uintptr(n), dst, stride)
}

func lanesToHalfPlanes(rows int, src *float32, stride int, bias *float32, dst *uint16, plane, width int, n laneCount) {
	lanesToHalfPlanesBF16(rows, src, stride, bias, dst, plane, width, uintptr(n))
}
