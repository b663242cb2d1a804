package devicetest

import (
	"math"

	"github.com/trainctl/trainctl/core/engine/op"
)

func init() { pointwise(op.Softplus, softplus(1, 20), softplus(0.5, 20), softplus(3, 30)) }

// softplus is exact above the threshold, within rounding of what it is there.
func softplus(beta, threshold float64) function {
	return function{
		f:     func(x float64) float64 { return max(x, 0) + math.Log1p(math.Exp(-math.Abs(beta*x)))/beta },
		slope: func(x float64) float64 { return logistic(beta * x) },
		attr:  op.Scalars{beta, threshold},
	}
}
