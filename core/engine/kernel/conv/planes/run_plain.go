//go:build !amd64 && !arm64

package planes

import "github.com/trainctl/trainctl/core/engine/kernel"

func runPlaneTile(lanes, vectors int, t *planeTile) { kernel.NoVectors() }
func runPlaneDots(lanes int, t *planeDots)          { kernel.NoVectors() }
