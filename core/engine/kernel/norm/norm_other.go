//go:build !amd64

package norm

import "github.com/trainctl/trainctl/core/engine/kernel"

func vecHalfMoments(x *uint16, vectors int, tail kernel.Mask, inverse float32, ahead int) (mean, diff, square float32) {
	kernel.NoVectors()
	return
}

func runHalfPool(rows int, t *halfPool) { kernel.NoVectors() }

func runHalfPoolSums(rows int, t *halfPoolGrad) { kernel.NoVectors() }

func runHalfPoolGrad(rows int, t *halfPoolGrad) { kernel.NoVectors() }

func vecHalfNorm(x, residual *uint16, residualStep int, mean, scale, shift, floor float32, y *uint16, pairs int) {
	kernel.NoVectors()
}

func vecHalfNormSums(x, dy, gate *uint16, gateStep int, mean float32, pairs, ahead int) (sum, dot float32) {
	kernel.NoVectors()
	return
}

func vecHalfNormGrad(x, dy, gate *uint16, gateStep int, scale, slope, offset float32, dx *uint16, pairs int) {
	kernel.NoVectors()
}

func normPoolSums(vectors int, t *poolGradTile) { kernel.NoVectors() }

func normPoolGrad(vectors int, t *poolGradTile) { kernel.NoVectors() }

func vecMoments(x []float32, s *planeSize) (mean, diff, square float32) { kernel.NoVectors(); return }

func vecSubMulAdd(x []float32, mean, scale, shift float32, y []float32) { kernel.NoVectors() }

func vecNormGrad(x, dy []float32, mean, meanDy, slope, scale float32, dx []float32) {
	kernel.NoVectors()
}
