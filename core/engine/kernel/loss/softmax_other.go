//go:build !amd64

package loss

import "github.com/trainctl/trainctl/core/engine/kernel"

func vecLargest(x []float32) float32                           { kernel.NoVectors(); return 0 }
func vecExpSum(x []float32, peak float64, y []float32) float64 { kernel.NoVectors(); return 0 }
func vecSoftmaxGrad(y []float32, sum, wanted, scale float64)   { kernel.NoVectors() }
