package elementwise

import (
	"math"
	"testing"

	"github.com/trainctl/trainctl/core/engine/kernel/kerneltest"
)

func TestExponentials(t *testing.T) {
	kerneltest.IsRounded(t, "sigmoid", Sigmoid[float32], func(x float64) float64 { return 1 / (1 + math.Exp(-x)) })
	kerneltest.IsRounded(t, "tanh", Tanh[float32], math.Tanh)
}
