//go:build !amd64 && !arm64

package direct

import "github.com/trainctl/trainctl/core/engine/kernel"

func runDotTile(s dotShape, t *dotTile) { kernel.NoVectors() }

func runViewDots(lanes, rows, views int, t *viewDots) { kernel.NoVectors() }
