package devicetest

import (
	"github.com/trainctl/trainctl/core/engine/op"
)

func init() {
	pointwise(op.ReLU6, function{
		f: func(x float64) float64 { return min(max(x, 0), 6) },
		slope: func(y float64) float64 {
			if y >= 6 {
				return 0
			}
			return positive(y)
		},
	})
}
