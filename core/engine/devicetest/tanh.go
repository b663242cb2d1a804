package devicetest

import (
	"math"

	"github.com/trainctl/trainctl/core/engine/op"
)

func init() {
	pointwise(op.Tanh, function{f: math.Tanh, slope: func(y float64) float64 { return 1 - y*y }})
}
