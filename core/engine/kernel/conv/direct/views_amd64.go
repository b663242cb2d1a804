package direct

import "github.com/trainctl/trainctl/core/engine/kernel"

// runViewDots runs the kernel of so many rows and views of vectors of so many lanes.
func runViewDots(lanes, rows, views int, t *viewDots) {
	if lanes == kernel.Block {
		runWideViewDots(rows, views, t)
		return
	}
	switch rows<<4 | views {
	case 1<<4 | 4:
		viewDots1x4AVX2(t)
	case 1<<4 | 5:
		viewDots1x5AVX2(t)
	case 1<<4 | 6:
		viewDots1x6AVX2(t)
	case 1<<4 | 7:
		viewDots1x7AVX2(t)
	case 1<<4 | 8:
		viewDots1x8AVX2(t)
	case 2<<4 | 4:
		viewDots2x4AVX2(t)
	case 2<<4 | 5:
		viewDots2x5AVX2(t)
	case 2<<4 | 6:
		viewDots2x6AVX2(t)
	case 3<<4 | 4:
		viewDots3x4AVX2(t)
	}
}

// runWideViewDots runs the kernel of so many rows and views of vectors of sixteen lanes.
func runWideViewDots(rows, views int, t *viewDots) {
	switch rows<<4 | views {
	case 1<<4 | 4:
		viewDots1x4AVX512(t)
	case 1<<4 | 5:
		viewDots1x5AVX512(t)
	case 1<<4 | 6:
		viewDots1x6AVX512(t)
	case 1<<4 | 7:
		viewDots1x7AVX512(t)
	case 1<<4 | 8:
		viewDots1x8AVX512(t)
	case 2<<4 | 4:
		viewDots2x4AVX512(t)
	case 2<<4 | 5:
		viewDots2x5AVX512(t)
	case 2<<4 | 6:
		viewDots2x6AVX512(t)
	case 2<<4 | 7:
		viewDots2x7AVX512(t)
	case 2<<4 | 8:
		viewDots2x8AVX512(t)
	case 3<<4 | 4:
		viewDots3x4AVX512(t)
	case 3<<4 | 5:
		viewDots3x5AVX512(t)
	case 3<<4 | 6:
		viewDots3x6AVX512(t)
	case 3<<4 | 7:
		viewDots3x7AVX512(t)
	case 3<<4 | 8:
		viewDots3x8AVX512(t)
	case 4<<4 | 4:
		viewDots4x4AVX512(t)
	case 4<<4 | 5:
		viewDots4x5AVX512(t)
	case 4<<4 | 6:
		viewDots4x6AVX512(t)
	case 5<<4 | 4:
		viewDots5x4AVX512(t)
	case 5<<4 | 5:
		viewDots5x5AVX512(t)
	case 6<<4 | 4:
		viewDots6x4AVX512(t)
	}
}
