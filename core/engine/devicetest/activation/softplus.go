package activation

import (
	"math"

	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/op/activation"
)

func init() { enter(activation.Softplus, softplus(1, 20), softplus(0.5, 20), softplus(3, 30)) }

// softplus is exact above the threshold, within rounding of what it is there.
func softplus(beta, threshold float64) Function {
	return Function{
		F:     func(x float64) float64 { return max(x, 0) + math.Log1p(math.Exp(-math.Abs(beta*x)))/beta },
		Slope: func(x float64) float64 { return logistic(beta * x) },
		Attr:  op.Scalars{beta, threshold},
	}
}
