//go:build !amd64

package gemm

import "github.com/trainctl/trainctl/core/engine/kernel"

// PackPairs interleaves the lanes of n of pairs of rows; stride, between pairs, and step
// are bytes.
func PackPairs(pairs int, even, odd *uint16, stride int, n kernel.Mask, dst *float32, step int) {
	kernel.NoVectors()
}

func runPairTile(rows int, t *Tile) { kernel.NoVectors() }

// RunRoundedTile has no version here.
func RunRoundedTile(rows int, t *Tile) { kernel.NoVectors() }
