package main

import (
	"math"

	"github.com/trainctl/trainctl/custom"
)

// swish is x·sigmoid(beta·x), with a beta for each channel, the last dimension, that is learned (Ramachandran et al., 2017).
var swish = custom.Layer{
	Name: "swish", Doc: "x·sigmoid(beta·x) with a learned beta for each channel",
	Keys: []custom.Key{{Name: "beta", Default: 1.0, Positive: true, Doc: "beta at the start"}},
	Params: func(a custom.Args, in []int) ([]custom.Param, error) {
		return []custom.Param{{Name: "beta", Shape: in[len(in)-1:], Init: custom.Constant(float32(a.Float("beta")))}}, nil
	},
	Float32: custom.Kernels[float32]{Forward: swishForward[float32], Backward: swishBackward[float32]},
	Float64: custom.Kernels[float64]{Forward: swishForward[float64], Backward: swishBackward[float64]},
	InPlace: true, PerSample: true, PerPosition: true,
}

func sigmoid[T custom.Number](x T) T { return T(1 / (1 + math.Exp(-float64(x)))) }

func swishForward[T custom.Number](c *custom.Call[T]) {
	beta := c.Params[0]
	for i, x := range c.X {
		c.Y[i] = x * sigmoid(beta[i%len(beta)]*x)
	}
}

func swishBackward[T custom.Number](c *custom.Call[T]) {
	beta, dbeta := c.Params[0], c.DParams[0]
	for i, x := range c.X {
		b := i % len(beta)
		s, dy := sigmoid(beta[b]*x), c.DY[i]
		slope := x * s * (1 - s)
		dbeta[b] += dy * slope * x
		c.DX[i] = dy * (s + beta[b]*slope)
	}
}
