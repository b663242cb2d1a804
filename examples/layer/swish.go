package main

import (
	"context"
	"math"

	"github.com/trainctl/trainctl/core/sdk"
)

// Swish is x·sigmoid(beta·x), with one beta that is learned.
type Swish struct{}

// Info publishes name and options of the plugin.
func (Swish) Info() sdk.Info {
	return sdk.Info{
		Kind: sdk.KindLayer, Name: "swish", Version: "0.1.0", Summary: "an example: x·sigmoid(beta·x) with a learned beta",
		Options: []sdk.Option{{Name: "beta", Type: sdk.Float, Default: 1.0, Doc: "The beta to start with; 0 starts with x/2."}},
	}
}

// Describe returns the parameters. The output has the shape of the input, because Shape is not set.
func (Swish) Describe(_ context.Context, req sdk.LayerRequest) (sdk.LayerSpec, error) {
	beta := sdk.LayerParam{Name: "beta", Shape: []int{1}, Init: sdk.InitConstant(req.Options.Float("beta"))}
	return sdk.LayerSpec{Params: []sdk.LayerParam{beta}}, nil
}

// Forward computes Y, in the type of the run.
func (Swish) Forward(_ context.Context, c *sdk.LayerCall) error {
	c.Compute(forward[float32], forward[float64])
	return nil
}

// Backward computes DX and adds to the gradient of beta.
func (Swish) Backward(_ context.Context, c *sdk.LayerCall) error {
	c.Compute(backward[float32], backward[float64])
	return nil
}

// Close has nothing to free.
func (Swish) Close() error { return nil }

func forward[T float32 | float64](t *sdk.LayerTensors[T]) {
	beta := float64(t.Params[0][0])
	for i, v := range t.X {
		x := float64(v)
		t.Y[i] = T(x * sigmoid(beta*x))
	}
}

func backward[T float32 | float64](t *sdk.LayerTensors[T]) {
	beta, sum := float64(t.Params[0][0]), 0.0
	for i, v := range t.X {
		x, dy := float64(v), float64(t.DY[i])
		s := sigmoid(beta * x)
		t.DX[i] = T(dy * s * (1 + beta*x*(1-s)))
		sum += dy * x * x * s * (1 - s)
	}
	t.DParams[0][0] += T(sum)
}

func sigmoid(x float64) float64 { return 1 / (1 + math.Exp(-x)) }
