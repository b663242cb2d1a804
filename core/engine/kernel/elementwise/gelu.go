package elementwise

import (
	"math"

	"github.com/trainctl/trainctl/core/engine/kernel"
)

// The constants of GELU's tanh form: sqrt(2/π) and the cubic coefficient.
const (
	geluScale = math.Sqrt2 / math.SqrtPi
	geluCubic = 0.044715
)

// GELU computes y = x·Φ(x) (Hendrycks and Gimpel, 2016), with the tanh
// approximation of Φ if asked for. y may be x.
func GELU[T kernel.Float](x, y []T, tanhApprox bool) {
	if tanhApprox {
		mapped(x, y, vecGeluTanh, geluTanh32, func(v float64) float64 {
			return 0.5 * v * (1 + math.Tanh(geluScale*(v+geluCubic*v*v*v)))
		})
		return
	}
	mapped(x, y, vecGelu, gelu32, func(v float64) float64 { return 0.5 * v * (1 + math.Erf(v/math.Sqrt2)) })
}

// GELUGrad computes dx = dy·GELU'(x). dx may be dy.
func GELUGrad[T kernel.Float](x, dy, dx []T, tanhApprox bool) {
	if tanhApprox {
		zipped(x, dy, dx, vecGeluTanhGrad, geluTanhGrad32, func(v, d float64) float64 {
			t := math.Tanh(geluScale * (v + geluCubic*v*v*v))
			return d * (0.5*(1+t) + 0.5*v*(1-t*t)*geluScale*(1+3*geluCubic*v*v))
		})
		return
	}
	zipped(x, dy, dx, vecGeluGrad, geluGrad32, func(v, d float64) float64 {
		density := math.Exp(-0.5*v*v) / (math.Sqrt2 * math.SqrtPi)
		return d * (0.5*(1+math.Erf(v/math.Sqrt2)) + v*density)
	})
}

// GELUAndSlope computes y = GELU(x) and replaces x by GELU'(x), to the bits of GELU and of
// GELUGrad for dy = 1: together they take little more time than one. y is not x.
func GELUAndSlope(x, y []float32, tanhApprox bool) {
	if tanhApprox {
		withSlope(x, y, vecGeluTanhAndSlope, geluTanh32, geluTanhGrad32)
		return
	}
	withSlope(x, y, vecGeluAndSlope, gelu32, geluGrad32)
}

func gelu32(x float32) float32 {
	_, tail := normalTail32(x)
	return x * share32(x, tail)
}

func geluGrad32(x, dy float32) float32 {
	const density = tiny / (math.Sqrt2 * math.SqrtPi)
	e, tail := normalTail32(x)
	return fma32(x, float32(e*density), share32(x, tail)) * dy
}

// The polynomial 2u(x) = x·(geluLinear + geluCube·x²) of GELU's tanh form.
const (
	geluLinear = 2 * geluScale
	geluCube   = geluLinear * geluCubic
)

func cubic32(x float32) float32 { return (float32(float32(x*x)*geluCube) + geluLinear) * x }

func geluTanh32(x float32) float32 { return x * sigmoid32(cubic32(x)) }

func geluTanhGrad32(x, dy float32) float32 {
	const bound = 32
	at, opposite := sigmoids32(cubic32(x))
	size := size32(x, bound)
	slope := float32(float32(size*size)*(3*geluCube)) + geluLinear
	return (at + float32(slope*float32(x*float32(at*opposite)))) * dy
}
