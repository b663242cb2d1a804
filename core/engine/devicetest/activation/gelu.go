package activation

import (
	"math"

	"github.com/trainctl/trainctl/core/engine/op"
	"github.com/trainctl/trainctl/core/engine/op/activation"
)

func init() {
	enter(activation.GELU, Function{
		F:     func(x float64) float64 { return x * phi(x) },
		Slope: func(x float64) float64 { return phi(x) + x*math.Exp(-x*x/2)/math.Sqrt(2*math.Pi) },
		Attr:  op.Scalars{0},
	}, Function{
		F: func(x float64) float64 { return x / 2 * (1 + math.Tanh(cubic(x))) },
		Slope: func(x float64) float64 {
			t := math.Tanh(cubic(x))
			return (1+t)/2 + x/2*(1-t*t)*math.Sqrt(2/math.Pi)*(1+3*0.044715*x*x)
		},
		Attr: op.Scalars{1},
	})
}

func phi(x float64) float64   { return math.Erfc(-x/math.Sqrt2) / 2 }
func cubic(x float64) float64 { return math.Sqrt(2/math.Pi) * (x + 0.044715*x*x*x) }
