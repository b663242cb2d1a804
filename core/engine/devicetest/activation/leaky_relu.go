package activation

import (
	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/op/activation"
)

func init() { enter(activation.LeakyReLU, leaky(0.01), leaky(0.3), leaky(0), leaky(-2)) }

func leaky(slope float64) Function {
	factor := func(x float64) float64 {
		if x > 0 {
			return 1
		}
		return slope
	}
	return Function{
		F:     func(x float64) float64 { return factor(x) * x },
		Slope: factor,
		Attr:  op.Scalars{slope},
	}
}
