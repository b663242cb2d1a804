//go:build !amd64 && !arm64

package gemm

import "github.com/trainctl/trainctl/core/engine/kernel"

func (s TileShape) runTogether(rows int, t *Tile) { kernel.NoVectors() }

func (s TileShape) runTiles(rows int, t *Tile) { kernel.NoVectors() }

func runAlong(lanes, rows, vectors int, t *strip) { kernel.NoVectors() }

func runAcross(lanes, rows, vectors int, t *strip) { kernel.NoVectors() }

func runApart(lanes, rows, vectors int, t *strip) { kernel.NoVectors() }

func runNarrow(lanes, columns int, t *strip) { kernel.NoVectors() }

func packAcross(lanes, rows int, src *float32, stride, k int, tail kernel.Mask, dst *float32, step int) {
	kernel.NoVectors()
}

func packAlong(lanes, k int, src *float32, stride int, mask kernel.Mask, dst *float32, step int) {
	kernel.NoVectors()
}
