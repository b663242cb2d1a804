package geometry

import (
	"unsafe"

	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/elementwise"
)

// NoBias is what results begin with that have no bias.
var NoBias [kernel.Block]float32

// Aligned is x from the start of a cache line on.
func Aligned(x []float32) []float32 {
	const line = 64
	return x[int(-uintptr(unsafe.Pointer(&x[0]))%line)/4:]
}

// TurnFilters copies filters of so many taps, each from its last weight to its first.
func TurnFilters(taps int, w, turned []float32) {
	for at := 0; at < len(w); at += taps {
		to := turned[at:][:taps]
		for i, v := range w[at:][:taps] {
			to[taps-1-i] = v
		}
	}
}

// LaneSums adds up vectors of so many lanes, x [len(sums)][lanes], and gives the bits that elementwise.RowSums does. Those of the
// level's width are added a square of lanes at a time.
func LaneSums(lanes int, x, sums []float32) {
	if lanes == kernel.Lanes() && kernel.HasVectors[float32]() && len(sums) >= lanes {
		blocks := len(sums) / lanes
		vecLaneSums(blocks, &x[0], &sums[0])
		x, sums = x[blocks*lanes*lanes:], sums[blocks*lanes:]
	}
	if len(sums) > 0 {
		elementwise.RowSums(len(sums), lanes, x, sums)
	}
}

// LanesFor is the size of the vectors that rows of so many columns take: eight lanes where more leave many idle.
func LanesFor(columns int) int {
	const narrow = 8
	wide := kernel.Lanes()
	if few, many := kernel.CeilDiv(columns, narrow)*narrow, kernel.CeilDiv(columns, wide)*wide; 7*many <= 8*few {
		return wide
	}
	return narrow
}
