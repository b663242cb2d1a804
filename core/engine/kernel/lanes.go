package kernel

import "unsafe"

// CeilDiv is a/b, rounded up.
func CeilDiv(a, b int) int { return (a + b - 1) / b }

// Lanes is how many float32 a vector holds at the active level, 0 without vectors.
func Lanes() int { return vectorSizes[Current()] }

var vectorSizes = [...]int{NEON: 8, AVX2: 8, AVX512: 16}

// Mask stands for some lanes of a vector in the form that the active level's kernels
// take: a bit for each, or an address in a table of sign bits, behind which NEON's have
// the number of lanes.
type Mask uintptr

// laneTable is a window over 16 lanes of sign bits, for AVX2's masked moves: those of
// one vector, or of the two that Block elements take.
var laneTable = [2 * Block]int32{-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1}

// counted is a mask of Block lanes, and how many of them count in each vector and in each
// half of one.
type counted struct {
	lanes   [Block]int32
	vectors [2]int32
	halves  [4]int32
}

var countedLanes = countLanes()

func countLanes() (masks [Block + 1]counted) {
	for n := range masks {
		m := &masks[n]
		copy(m.lanes[:], laneTable[Block-n:])
		for i := range m.vectors {
			m.vectors[i] = int32(min(max(n-8*i, 0), 8))
		}
		for i := range m.halves {
			m.halves[i] = int32(min(max(n-4*i, 0), 4))
		}
	}
	return masks
}

// lastTable is laneTable for the last lanes of eight.
var lastTable = [Block]int32{8: -1, -1, -1, -1, -1, -1, -1, -1}

// LastOfEight is the mask of the last n lanes for kernels of AVX2 that clear the others, which run at the level of AVX-512, too.
func LastOfEight(n int) Mask { return Mask(unsafe.Pointer(&lastTable[n])) }

// FirstLanes is the mask of the first n lanes of a vector, or of Block elements.
func FirstLanes(n int) Mask {
	if Current() == AVX512 {
		return Mask(1)<<n - 1
	}
	return FirstOfEight(n)
}

// FirstOfEight is FirstLanes(n) for kernels that work on eight lanes at every level.
func FirstOfEight(n int) Mask {
	if Current() == NEON {
		return Mask(unsafe.Pointer(&countedLanes[n]))
	}
	return Mask(unsafe.Pointer(&laneTable[Block-n]))
}
