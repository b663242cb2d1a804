package activation

import (
	"github.com/trainctl/trainctl/core/engine/op/activation"
)

func init() {
	enter(activation.SiLU, Function{
		F:     func(x float64) float64 { return x * logistic(x) },
		Slope: func(x float64) float64 { return logistic(x) + x*logistic(x)*(1-logistic(x)) },
	})
}
