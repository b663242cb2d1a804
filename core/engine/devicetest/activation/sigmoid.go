package activation

import (
	"math"

	"github.com/trainctl/trainctl/core/engine/op/activation"
)

func init() {
	enter(activation.Sigmoid, Function{F: logistic, Slope: func(y float64) float64 { return y * (1 - y) }})
}

func logistic(x float64) float64 { return 1 / (1 + math.Exp(-x)) }
