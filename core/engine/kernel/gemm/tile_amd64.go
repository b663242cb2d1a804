package gemm

import "github.com/trainctl/trainctl/core/engine/kernel"

// PackPairs interleaves the first n elements of pairs of rows; stride, between pairs, and step
// are bytes. A whole vector is written.
func PackPairs(pairs int, even, odd *uint16, stride, n int, dst *float32, step int) {
	packPairsBF16(pairs, even, odd, stride, uintptr(kernel.FirstLanes(n)), dst, step)
}

// runPairTile computes a tile of the given height from pairs of bfloat16.
func runPairTile(rows int, t *Tile) {
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

// RunRoundedTile computes a tile of the given height from pairs of bfloat16, and rounds it.
func RunRoundedTile(rows int, t *Tile) {
	switch rows {
	case 1:
		roundedTile1BF16(t)
	case 2:
		roundedTile2BF16(t)
	case 3:
		roundedTile3BF16(t)
	case 4:
		roundedTile4BF16(t)
	case 5:
		roundedTile5BF16(t)
	case 6:
		roundedTile6BF16(t)
	case 7:
		roundedTile7BF16(t)
	case 8:
		roundedTile8BF16(t)
	case 9:
		roundedTile9BF16(t)
	case 10:
		roundedTile10BF16(t)
	case 11:
		roundedTile11BF16(t)
	case 12:
		roundedTile12BF16(t)
	case 13:
		roundedTile13BF16(t)
	case 14:
		roundedTile14BF16(t)
	}
}

// runTogether computes tiles of one or two rows while there are as many as are computed at a time.
func (s TileShape) runTogether(rows int, t *Tile) {
	switch wide := s.Lanes == kernel.Block; {
	case rows == 1 && wide:
		tiles1AVX512(t)
	case wide:
		tiles2AVX512(t)
	case rows == 1:
		tiles1AVX2(t)
	default:
		tiles2AVX2(t)
	}
}

// runTiles computes one tile of the given height after the other.
func (s TileShape) runTiles(rows int, t *Tile) {
	if s.Lanes == kernel.Block {
		runTileAVX512(rows, t)
	} else {
		runTileAVX2(rows, t)
	}
}

func runTileAVX2(rows int, t *Tile) {
	switch rows {
	case 1:
		tile1AVX2(t)
	case 2:
		tile2AVX2(t)
	case 3:
		tile3AVX2(t)
	case 4:
		tile4AVX2(t)
	case 5:
		tile5AVX2(t)
	case 6:
		tile6AVX2(t)
	}
}

func runTileAVX512(rows int, t *Tile) {
	switch rows {
	case 1:
		tile1AVX512(t)
	case 2:
		tile2AVX512(t)
	case 3:
		tile3AVX512(t)
	case 4:
		tile4AVX512(t)
	case 5:
		tile5AVX512(t)
	case 6:
		tile6AVX512(t)
	case 7:
		tile7AVX512(t)
	case 8:
		tile8AVX512(t)
	case 9:
		tile9AVX512(t)
	case 10:
		tile10AVX512(t)
	case 11:
		tile11AVX512(t)
	case 12:
		tile12AVX512(t)
	case 13:
		tile13AVX512(t)
	case 14:
		tile14AVX512(t)
	}
}

// packAcross is vecPackAcross for vectors of so many lanes.
func packAcross(lanes, rows int, src *float32, stride, k int, tail kernel.Mask, dst *float32, step int) {
	const eight = 8
	switch {
	case lanes == eight && rows == eight && step == 4*eight && k >= eight && kernel.Wide():
		packEightAVX512(src, stride, k, dst)
	case lanes == kernel.Block:
		packAcrossAVX512(rows, src, stride, k, uintptr(tail), dst, step)
	default:
		packAcrossAVX2(rows, src, stride, k, uintptr(tail), dst, step)
	}
}

// packAlong is vecPackAlong for vectors of so many lanes.
func packAlong(lanes, k int, src *float32, stride int, mask kernel.Mask, dst *float32, step int) {
	if lanes == kernel.Block {
		packAlongAVX512(k, src, stride, uintptr(mask), dst, step)
	} else {
		packAlongAVX2(k, src, stride, uintptr(mask), dst, step)
	}
}
