package activation

import (
	"math"

	"github.com/trainctl/trainctl/core/engine/op/activation"
)

func init() {
	// A NaN stays one, and the gradient passes.
	enter(activation.ReLU, Function{F: func(x float64) float64 { return max(x, 0) }, Slope: positive, Exact: []Point{{math.NaN(), math.NaN(), 1}, {-1, 0, 0}, {0, 0, 0}, {2, 2, 1}}})
}

func positive(y float64) float64 {
	if y > 0 {
		return 1
	}
	return 0
}
