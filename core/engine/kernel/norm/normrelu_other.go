//go:build !amd64

package norm

import "github.com/trainctl/trainctl/core/engine/kernel"

func vecNormReLU(x, r []float32, mean, scale, shift float32, y []float32) { kernel.NoVectors() }
func vecNormSums(dy, x []float32, mean float32, ahead int) (sum, dot float32) {
	kernel.NoVectors()
	return 0, 0
}
func vecReLUSums(y, dy, x []float32, mean float32, d []float32, ahead int) (sum, dot float32) {
	kernel.NoVectors()
	return 0, 0
}
func vecReLUNormGrad(x, y, dy []float32, mean, meanDy, slope, scale float32, dx []float32) {
	kernel.NoVectors()
}
