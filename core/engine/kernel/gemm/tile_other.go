//go:build !amd64 && !arm64

package gemm

import "github.com/trainctl/trainctl/core/engine/kernel"

// PackPairs has no version here.
func PackPairs(pairs int, even, odd *uint16, stride, n int, dst *float32, step int) {
	kernel.NoVectors()
}

func runPairTile(rows int, t *Tile) { kernel.NoVectors() }

// RunRoundedTile has no version here.
func RunRoundedTile(rows int, t *Tile) { kernel.NoVectors() }
