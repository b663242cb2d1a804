//go:build !amd64

package optimizer

import "github.com/trainctl/trainctl/core/engine/kernel"

func runAdam(s *adamStep) { kernel.NoVectors() }

func vecSGDMomentum(p, g, buf []float32, lr, momentum, undamped, weightDecay float32) {
	kernel.NoVectors()
}
