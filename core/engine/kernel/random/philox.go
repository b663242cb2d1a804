package random

import (
	"math/bits"

	"github.com/trainctl/trainctl/core/engine/kernel"
)

// Philox4x32-10 of Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as
// easy as 1, 2, 3" (SC 2011): ten rounds that mix a 128-bit counter under a
// 64-bit key. There is no state, so any element of any stream can be had alone.
// Known to gen/pointwise/philox.go.
const (
	philoxM0, philoxM1 = 0xD2511F53, 0xCD9E8D57 // multipliers of a round
	philoxW0, philoxW1 = 0x9E3779B9, 0xBB67AE85 // key increments between rounds
	philoxRounds       = 10
)

func philox(counter [4]uint32, key [2]uint32) [4]uint32 {
	c, k := counter, key
	for range philoxRounds {
		hi0, lo0 := bits.Mul32(philoxM0, c[0])
		hi1, lo1 := bits.Mul32(philoxM1, c[2])
		c = [4]uint32{hi1 ^ c[1] ^ k[0], lo1, hi0 ^ c[3] ^ k[1], lo0}
		k[0] += philoxW0
		k[1] += philoxW1
	}
	return c
}

// DropoutMask sets mask[i] to 0 with probability p, else to 1. Each value depends
// on (seed, stream, i) alone: however the work is split, the mask is the same.
// The counter is (i/4, stream), the key the seed, and i%4 picks the word.
func DropoutMask(seed, stream uint64, p float64, mask []uint8) {
	DropoutMaskFrom(seed, stream, p, 0, mask)
}

// DropoutMaskFrom is DropoutMask for the values from index first on, a multiple of 4.
func DropoutMaskFrom(seed, stream uint64, p float64, first uint64, mask []uint8) {
	drop := uint64(p * (1 << 32)) // words below are dropped
	if kernel.Current() == kernel.Generic {
		dropoutMask(seed, stream, drop, first/4, mask)
		return
	}
	block, keep := first/4, 1<<32-drop
	if n := len(mask) / maskBlock * maskBlock; n > 0 {
		vecDropoutMask(&mask[0], block, stream, seed, keep, &evens[0], n)
		block += uint64(n / 4)
		mask = mask[n:]
	}
	if len(mask) > 0 {
		var last [maskBlock]uint8
		vecDropoutMask(&last[0], block, stream, seed, keep, &evens[0], maskBlock)
		copy(mask, last[:])
	}
}

// maskBlock is how many values vector kernels make at a time, or a part of it.
const maskBlock = 64

// evens are the blocks that the first vector begins with.
var evens = [8]uint64{0, 2, 4, 6, 8, 10, 12, 14}

// dropoutMask makes values from a block of four on.
func dropoutMask(seed, stream, drop, block uint64, mask []uint8) {
	key := [2]uint32{uint32(seed), uint32(seed >> 32)}
	for i := 0; i < len(mask); i += 4 {
		words := philox([4]uint32{uint32(block), uint32(block >> 32), uint32(stream), uint32(stream >> 32)}, key)
		block++
		for j := range min(4, len(mask)-i) {
			mask[i+j] = 0
			if uint64(words[j]) >= drop {
				mask[i+j] = 1
			}
		}
	}
}
