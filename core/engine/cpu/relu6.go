package cpu

import (
	"github.com/trainctl/trainctl/core/engine/kernel"
	"github.com/trainctl/trainctl/core/engine/kernel/elementwise"
	"github.com/trainctl/trainctl/core/engine/op"
)

func init() {
	pointwise(op.ReLU6, relu6[float32], relu6[float64], relu6Grad[float32], relu6Grad[float64])
}

// relu6 computes y = min(max(x, 0), 6); NaN stays NaN. y may be x.
func relu6[T kernel.Float](x, y []T, _ op.Scalars) {
	elementwise.ReLU(x, y)
	for i, v := range y[:len(x)] {
		if v > 6 {
			y[i] = 6
		}
	}
}

// relu6Grad computes dx = 0 where y ≤ 0 or y ≥ 6, else dy: a NaN in y lets dy
// through, as PyTorch's hardtanh_backward does. dx may be dy.
func relu6Grad[T kernel.Float](y, dy, dx []T, _ op.Scalars) {
	elementwise.ReLUGrad(y, dy, dx)
	for i, v := range y {
		if v >= 6 {
			dx[i] = 0
		}
	}
}
