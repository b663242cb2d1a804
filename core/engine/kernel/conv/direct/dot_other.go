//go:build !amd64

package direct

import "github.com/trainctl/trainctl/core/engine/kernel"

func runPairDots(t *dotTile) { kernel.NoVectors() }
