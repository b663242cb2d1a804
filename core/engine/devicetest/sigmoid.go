package devicetest

import (
	"math"

	"github.com/trainctl/trainctl/core/engine/op"
)

func init() {
	pointwise(op.Sigmoid, function{f: logistic, slope: func(y float64) float64 { return y * (1 - y) }})
}

func logistic(x float64) float64 { return 1 / (1 + math.Exp(-x)) }
