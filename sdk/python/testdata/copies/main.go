// Command copies is the data set and the layer of copies.py in Go.
package main

import (
	"context"

	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/tensor"
)

type copies struct {
	x []float32
	y []int32
}

const pixels = 28 * 28

func (*copies) Info() sdk.Info {
	return sdk.Info{Kind: sdk.KindDataset, Name: "copies", Version: "0.1.0", Summary: "samples of 28 x 28 floats"}
}

func (c *copies) Open(context.Context, sdk.DatasetRequest) (sdk.DatasetSpec, error) {
	c.x, c.y = make([]float32, 10_000*pixels), make([]int32, 10_000)
	return sdk.DatasetSpec{
		Source: "zeros", Fingerprint: "zeros", Classes: 10, TrainSamples: 10_000,
		Input: tensor.Spec{DType: tensor.F32, Shape: tensor.Shape{1, 28, 28}}, Target: tensor.Spec{DType: tensor.I32},
	}, nil
}

func (c *copies) Fill(_ context.Context, b *sdk.Batch) error {
	input, target := tensor.View[float32](b.Input), tensor.View[int32](b.Target)
	for i, index := range b.Indices {
		copy(input[i*pixels:(i+1)*pixels], c.x[index*pixels:])
		target[i] = c.y[index]
	}
	return nil
}

func (*copies) Close() error { return nil }

// same is a layer that copies.
type same struct{}

func (same) Info() sdk.Info {
	return sdk.Info{Kind: sdk.KindLayer, Name: "same", Version: "0.1.0", Summary: "its input"}
}

func (same) Describe(context.Context, sdk.LayerRequest) (sdk.LayerSpec, error) {
	return sdk.LayerSpec{}, nil
}

func (same) Forward(_ context.Context, c *sdk.LayerCall) error {
	copy(c.Float32.Y, c.Float32.X)
	return nil
}

func (same) Backward(_ context.Context, c *sdk.LayerCall) error {
	copy(c.Float32.DX, c.Float32.DY)
	return nil
}

func (same) Close() error { return nil }

func main() {
	sdk.Serve(sdk.Plugin{Dataset: func() sdk.Dataset { return &copies{} }, Layer: func() sdk.Layer { return same{} }})
}
