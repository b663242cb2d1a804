//go:build !amd64 && !arm64

package gemm

import "github.com/trainctl/trainctl/core/engine/kernel"

// RunTile has no version here.
func RunTile(rows int, t *Tile) { kernel.NoVectors() }

func runAlong(rows, vectors int, t *strip) { kernel.NoVectors() }

func runAcross(rows, vectors int, t *strip) { kernel.NoVectors() }

func runApart(rows, vectors int, t *strip) { kernel.NoVectors() }
