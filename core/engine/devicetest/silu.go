package devicetest

import (
	"github.com/trainctl/trainctl/core/engine/op"
)

func init() {
	pointwise(op.SiLU, function{
		f:     func(x float64) float64 { return x * logistic(x) },
		slope: func(x float64) float64 { return logistic(x) + x*logistic(x)*(1-logistic(x)) },
	})
}
