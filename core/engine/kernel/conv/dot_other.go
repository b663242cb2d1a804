//go:build !amd64

package conv

import "github.com/trainctl/trainctl/core/engine/kernel"

func runPairDots(t *dotTile) { kernel.NoVectors() }
