package activation

import (
	"github.com/trainctl/trainctl/core/engine/op/activation"
)

func init() {
	enter(activation.ReLU6, Function{
		F: func(x float64) float64 { return min(max(x, 0), 6) },
		Slope: func(y float64) float64 {
			if y >= 6 {
				return 0
			}
			return positive(y)
		},
	})
}
