//go:build !amd64

package reduce

import "github.com/trainctl/trainctl/core/engine/kernel"

func vecAddF16(dst, src []uint16) { kernel.NoVectors() }

func vecAddBF16(dst, src []uint16) { kernel.NoVectors() }

func vecAccumulateF16(dst []float32, src []uint16) { kernel.NoVectors() }

func vecAccumulateBF16(dst []float32, src []uint16) { kernel.NoVectors() }

func vecSum(x []float32) float64 { kernel.NoVectors(); return 0 }

func vecSumSqDiff(x []float32, mean float64) float64 { kernel.NoVectors(); return 0 }

func vecSumAndDot(dy, x []float32, mean float64) (sum, dot float64) {
	kernel.NoVectors()
	return 0, 0
}
