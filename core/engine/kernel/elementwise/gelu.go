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
		if inBlocks[T]() {
			y := kernel.As32(y)
			eachLogistic(kernel.As32(x), cubic32, func(i int, x, less float32) { y[i] = gated32(x, x, less) })
			return
		}
		mapped(x, y, vecGeluTanh, geluTanh32, func(v float64) float64 {
			return 0.5 * v * (1 + math.Tanh(geluScale*(v+geluCubic*v*v*v)))
		})
		return
	}
	if inBlocks[T]() {
		y := kernel.As32(y)
		eachTail(kernel.As32(x), func(i int, x, _, tail float32) { y[i] = x * share32(x, tail) })
		return
	}
	mapped(x, y, vecGelu, gelu32, func(v float64) float64 { return 0.5 * v * (1 + math.Erf(v/math.Sqrt2)) })
}

// GELUGrad computes dx = dy·GELU'(x). dx may be dy.
func GELUGrad[T kernel.Float](x, dy, dx []T, tanhApprox bool) {
	if tanhApprox {
		if inBlocks[T]() {
			dy, dx := kernel.As32(dy), kernel.As32(dx)
			eachLogistic(kernel.As32(x), cubic32, func(i int, x, less float32) { dx[i] = geluTanhSlope32(x, less) * dy[i] })
			return
		}
		zipped(x, dy, dx, vecGeluTanhGrad, geluTanhGrad32, func(v, d float64) float64 {
			t := math.Tanh(geluScale * (v + geluCubic*v*v*v))
			return d * (0.5*(1+t) + 0.5*v*(1-t*t)*geluScale*(1+3*geluCubic*v*v))
		})
		return
	}
	if inBlocks[T]() {
		dy, dx := kernel.As32(dy), kernel.As32(dx)
		eachTail(kernel.As32(x), func(i int, x, e, tail float32) { dx[i] = geluSlope32(x, e, tail) * dy[i] })
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
		if inBlocks[float32]() {
			eachLogistic(x, cubic32, func(i int, v, less float32) { y[i], x[i] = gated32(v, v, less), geluTanhSlope32(v, less) })
			return
		}
		withSlope(x, y, vecGeluTanhAndSlope, geluTanh32, geluTanhGrad32)
		return
	}
	if inBlocks[float32]() {
		eachTail(x, func(i int, v, e, tail float32) { y[i], x[i] = v*share32(v, tail), geluSlope32(v, e, tail) })
		return
	}
	withSlope(x, y, vecGeluAndSlope, gelu32, geluGrad32)
}

func gelu32(x float32) float32 {
	_, tail := normalTail32(x)
	return x * share32(x, tail)
}

func geluGrad32(x, dy float32) float32 {
	e, tail := normalTail32(x)
	return geluSlope32(x, e, tail) * dy
}

// geluSlope32 is GELU'(x), given what normalTail32 gives.
func geluSlope32(x, e, tail float32) float32 {
	const density = tiny / (math.Sqrt2 * math.SqrtPi)
	return fma32(x, float32(e*density), share32(x, tail))
}

// The polynomial 2u(x) = x·(geluLinear + geluCube·x²) of GELU's tanh form.
const (
	geluLinear = 2 * geluScale
	geluCube   = geluLinear * geluCubic
)

func cubic32(x float32) float32 { return (float32(float32(x*x)*geluCube) + geluLinear) * x }

func geluTanh32(x float32) float32 {
	u := cubic32(x)
	return gated32(x, u, logistic32(u))
}

func geluTanhGrad32(x, dy float32) float32 { return geluTanhSlope32(x, logistic32(cubic32(x))) * dy }

// geluTanhSlope32 is the slope of GELU's tanh form, given σ(−|2u(x)|).
func geluTanhSlope32(x, less float32) float32 {
	const bound = 32
	at, opposite := sigmoids32(x, less)
	size := size32(x, bound)
	slope := float32(float32(size*size)*(3*geluCube)) + geluLinear
	return fma32(float32(x*float32(at*opposite)), slope, at)
}

// inBlocks reports whether plain Go computes GELU or SiLU of float32, which does so in blocks.
func inBlocks[T kernel.Float]() bool { return kernel.Is32[T]() && !kernel.HasVectors[T]() }
