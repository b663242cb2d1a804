//go:build !amd64

package norm

import "github.com/trainctl/trainctl/core/engine/kernel"

func vecHalfMoments(x *uint16, vectors int, tail kernel.Mask, inverse float32, ahead int) (mean, diff, square float32) {
	kernel.NoVectors()
	return
}

func runHalfNormPool(rows int, t *halfNormPool) { kernel.NoVectors() }

func runHalfNormPoolSums(rows int, t *halfNormPoolGrad) { kernel.NoVectors() }

func runHalfNormPoolGrad(rows int, t *halfNormPoolGrad) { kernel.NoVectors() }
