package devicetest

import (
	"math"

	"github.com/trainctl/trainctl/core/engine/op"
)

func init() {
	pointwise(op.GELU, function{
		f:     func(x float64) float64 { return x * phi(x) },
		slope: func(x float64) float64 { return phi(x) + x*math.Exp(-x*x/2)/math.Sqrt(2*math.Pi) },
		attr:  op.Scalars{0},
	}, function{
		f: func(x float64) float64 { return x / 2 * (1 + math.Tanh(cubic(x))) },
		slope: func(x float64) float64 {
			t := math.Tanh(cubic(x))
			return (1+t)/2 + x/2*(1-t*t)*math.Sqrt(2/math.Pi)*(1+3*0.044715*x*x)
		},
		attr: op.Scalars{1},
	})
}

func phi(x float64) float64   { return math.Erfc(-x/math.Sqrt2) / 2 }
func cubic(x float64) float64 { return math.Sqrt(2/math.Pi) * (x + 0.044715*x*x*x) }
