package devicetest

import (
	"github.com/trainctl/trainctl/core/engine/op"
)

func init() { pointwise(op.LeakyReLU, leaky(0.01), leaky(0.3), leaky(0), leaky(-2)) }

func leaky(slope float64) function {
	factor := func(x float64) float64 {
		if x > 0 {
			return 1
		}
		return slope
	}
	return function{
		f:     func(x float64) float64 { return factor(x) * x },
		slope: factor,
		attr:  op.Scalars{slope},
	}
}
