package optim

import (
	"math"

	"github.com/trainctl/trainctl/core/base/usererr"
	"github.com/trainctl/trainctl/core/engine/kernel/elementwise"
	"github.com/trainctl/trainctl/core/engine/kernel/reduce"
	"github.com/trainctl/trainctl/core/engine/plan"
	"github.com/trainctl/trainctl/core/tensor"
)

// lars is SGD with a learning rate for each parameter (You, Gitman and Ginsburg
// 2017, "Large Batch Training of Convolutional Networks").
type lars struct{ sgd }

func (lars) name() string { return "lars" }
func (lars) keys() []string {
	return []string{"momentum", "dampening", "nesterov", "eps", "trust_coefficient"}
}

func (lars) problems(c Config, l *usererr.List) {
	sgd{}.problems(c, l)
	nonNegative(l, "eps", c.Eps)
	nonNegative(l, "trust_coefficient", c.TrustCoefficient)
}

func (lars) describe(c Config, s *settings) {
	sgd{}.describe(c, s)
	s.number("trust_coefficient", c.TrustCoefficient)
}

func (lars) whole() bool { return true }

func (lars) update(c Config, lr float64, step int64, s *slot) {
	weight, grad := s.weight, s.grad
	if s.Part != nil {
		weight, grad = s.Value, s.Grad
	}
	ratio := c.trust(weight, grad)
	if s.wide() {
		elementwise.Scale(s.grad.F64(), ratio)
	} else {
		elementwise.Scale(s.grad.F32(), float32(ratio))
	}
	c.WeightDecay *= ratio
	sgd{}.update(c, lr, step, s)
}

// trust is the factor that LARS gives a parameter's learning rate (equation 6
// of the paper), so that an update is as large in proportion to every parameter:
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

func norm(t tensor.Tensor) float64 { return math.Sqrt(reduce.SumSquaresBytes(t.DType, t.Data)) }

func (lars) numbers(c Config) plan.Rule {
	r := sgd{}.numbers(c)
	r.Eps, r.TrustCoefficient = c.Eps, c.TrustCoefficient
	return r
}
