package gemm

import (
	"unsafe"

	"github.com/trainctl/trainctl/core/engine/kernel"
)

// runTogether computes tiles of one or two rows while there are as many as are computed at a time.
func (s TileShape) runTogether(rows int, t *Tile) {
	if rows == 1 {
		tiles1NEON(t)
	} else {
		tiles2NEON(t)
	}
}

// runTiles computes one tile of the given height after the other.
func (s TileShape) runTiles(rows int, t *Tile) {
	switch rows {
	case 1:
		tile1NEON(t)
	case 2:
		tile2NEON(t)
	case 3:
		tile3NEON(t)
	case 4:
		tile4NEON(t)
	case 5:
		tile5NEON(t)
	case 6:
		tile6NEON(t)
	}
}

// runPairTile computes a tile of the given height from pairs of bfloat16.
func runPairTile(rows int, t *Tile) {
	switch rows {
	case 1:
		tile1NEONBF16(t)
	case 2:
		tile2NEONBF16(t)
	case 3:
		tile3NEONBF16(t)
	case 4:
		tile4NEONBF16(t)
	case 5:
		tile5NEONBF16(t)
	case 6:
		tile6NEONBF16(t)
	}
}

// PackPairs interleaves the first n elements of pairs of rows; stride, between pairs, and step
// are bytes. There may be a whole vector.
func PackPairs(pairs int, even, odd *uint16, stride, n int, dst *float32, step int) {
	const lanes = 8
	if n == lanes {
		packPairsNEONBF16(pairs, even, odd, stride, dst, step)
		return
	}
	for range pairs {
		e, o, to := unsafe.Slice(even, n), unsafe.Slice(odd, n), unsafe.Slice((*uint32)(unsafe.Pointer(dst)), n)
		for i := range to {
			to[i] = uint32(e[i]) | uint32(o[i])<<16
		}
		even, odd = (*uint16)(unsafe.Add(unsafe.Pointer(even), stride)), (*uint16)(unsafe.Add(unsafe.Pointer(odd), stride))
		dst = (*float32)(unsafe.Add(unsafe.Pointer(dst), step))
	}
}

// RunRoundedTile has no version here.
func RunRoundedTile(rows int, t *Tile) { kernel.NoVectors() }

// packAcross is vecPackAcross: all vectors have as many lanes.
func packAcross(_, rows int, src *float32, stride, k int, tail kernel.Mask, dst *float32, step int) {
	vecPackAcross(rows, src, stride, k, tail, dst, step)
}

// packAlong is vecPackAlong.
func packAlong(_, k int, src *float32, stride int, mask kernel.Mask, dst *float32, step int) {
	vecPackAlong(k, src, stride, mask, dst, step)
}
