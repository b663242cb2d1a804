package optim

import (
	"math"

	"github.com/trainctl/trainctl/core/kernel"
	"github.com/trainctl/trainctl/core/tensor"
)

// trust is the factor that LARS gives a parameter's learning rate (You, Gitman
// and Ginsburg 2017, "Large Batch Training of Convolutional Networks", equation 6),
// so that an update is as large in proportion to every parameter:
//
//	trust_coefficient · ‖w‖ / (‖g‖ + weight_decay · ‖w‖ + eps)
//
// g is the gradient without weight decay. A parameter or a gradient of zeros
// has no proportion and keeps the rate. The factor is on gradient and decay
// before momentum sees them, as in NVIDIA apex's LARC. Norms are float64.
func (c Config) trust(weight, grad tensor.Tensor) float64 {
	w, g := norm(weight), norm(grad)
	if w == 0 || g == 0 {
		return 1
	}
	return c.TrustCoefficient * w / (g + c.WeightDecay*w + c.Eps)
}

func norm(t tensor.Tensor) float64 { return math.Sqrt(kernel.SumSquaresBytes(t.DType, t.Data)) }
