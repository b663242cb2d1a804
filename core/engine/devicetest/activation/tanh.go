package activation

import (
	"math"

	"github.com/trainctl/trainctl/core/engine/op/activation"
)

func init() {
	enter(activation.Tanh, Function{F: math.Tanh, Slope: func(y float64) float64 { return 1 - y*y }})
}
