package elementwise

import (
	"math"

	"github.com/trainctl/trainctl/core/engine/kernel"
)

// mapped computes y = f(x): of whole blocks of float32 by vectors, of the rest by one, of
// float64 by exact. y may be x.
func mapped[T kernel.Float](x, y []T, vec func(x, y *float32, n int), one func(x float32) float32, exact func(x float64) float64) {
	y = y[:len(x)]
	if !kernel.Is32[T]() {
		for i, v := range x {
			y[i] = T(exact(float64(v)))
		}
		return
	}
	n := kernel.Head(len(x))
	if n > 0 {
		vec(kernel.Ptr32(x), kernel.Ptr32(y), n)
	}
	rest := kernel.As32(y[n:])
	for i, v := range kernel.As32(x[n:]) {
		rest[i] = one(v)
	}
}

// zipped computes dx = g(saved, dy) in the same ways. dx may be dy.
func zipped[T kernel.Float](saved, dy, dx []T, vec func(saved, dy, dx *float32, n int), one func(saved, dy float32) float32, exact func(saved, dy float64) float64) {
	dy, dx = dy[:len(saved)], dx[:len(saved)]
	if !kernel.Is32[T]() {
		for i, v := range saved {
			dx[i] = T(exact(float64(v), float64(dy[i])))
		}
		return
	}
	n := kernel.Head(len(saved))
	if n > 0 {
		vec(kernel.Ptr32(saved), kernel.Ptr32(dy), kernel.Ptr32(dx), n)
	}
	d, rest := kernel.As32(dy[n:]), kernel.As32(dx[n:])
	for i, v := range kernel.As32(saved[n:]) {
		rest[i] = one(v, d[i])
	}
}

// withSlope computes y = f(x), and replaces x by the slope, which is grad for dy = 1.
func withSlope(x, y []float32, vec func(x, y *float32, n int), f func(x float32) float32, grad func(x, dy float32) float32) {
	y = y[:len(x)]
	n := kernel.Head(len(x))
	if n > 0 {
		vec(&x[0], &y[0], n)
	}
	for i := n; i < len(x); i++ {
		y[i], x[i] = f(x[i]), grad(x[i], 1)
	}
}

// ReLU computes y = max(x, 0); NaN stays NaN. y may be x.
func ReLU[T kernel.Float](x, y []T) {
	y = y[:len(x)]
	if n := kernel.HeadOf[T](len(x)); n > 0 {
		vecReLU(kernel.Ptr32(x), kernel.Ptr32(y), n)
		x, y = x[n:], y[n:]
	}
	if kernel.Is32[T]() {
		y := kernel.As32(y)
		for i, v := range kernel.As32(x) {
			y[i] = unless(v < 0, v)
		}
		return
	}
	for i, v := range x {
		if v < 0 {
			v = 0
		}
		y[i] = v
	}
}

// ReLUGrad computes dx = 0 where y ≤ 0, else dy: a NaN in y lets dy through, as
// PyTorch's threshold_backward does. dx may be dy.
func ReLUGrad[T kernel.Float](y, dy, dx []T) {
	dy, dx = dy[:len(y)], dx[:len(y)]
	if n := kernel.HeadOf[T](len(y)); n > 0 {
		vecReLUGrad(kernel.Ptr32(y), kernel.Ptr32(dy), kernel.Ptr32(dx), n)
		y, dy, dx = y[n:], dy[n:], dx[n:]
	}
	if kernel.Is32[T]() {
		dy, dx := kernel.As32(dy), kernel.As32(dx)
		for i, v := range kernel.As32(y) {
			dx[i] = unless(v <= 0, dy[i])
		}
		return
	}
	for i, v := range y {
		if v <= 0 {
			dx[i] = 0
		} else {
			dx[i] = dy[i]
		}
	}
}

// unless is v, or 0 where clear says so. Compilers select integers without a branch, which random signs would have predicted wrongly.
func unless(clear bool, v float32) float32 {
	b := math.Float32bits(v)
	if clear {
		b = 0
	}
	return math.Float32frombits(b)
}

// ReLU6 computes y = min(max(x, 0), 6); NaN stays NaN. y may be x.
func ReLU6[T kernel.Float](x, y []T) {
	mapped(x, y, vecReLU6, func(v float32) float32 {
		b := math.Float32bits(unless(v < 0, v))
		if v > 6 {
			b = sixBits
		}
		return math.Float32frombits(b)
	}, clip6)
}

const sixBits = 0x40c00000

func clip6(v float64) float64 {
	switch {
	case v < 0:
		return 0
	case v > 6:
		return 6
	}
	return v
}

// ReLU6Grad computes dx = 0 where y ≤ 0 or y ≥ 6, else dy: a NaN in y lets dy
// through, as PyTorch's hardtanh_backward does. dx may be dy.
func ReLU6Grad[T kernel.Float](y, dy, dx []T) {
	zipped(y, dy, dx, vecReLU6Grad, func(y, dy float32) float32 { return unless(y >= 6, unless(y <= 0, dy)) }, clip6Grad)
}

func clip6Grad(y, dy float64) float64 {
	if y <= 0 || y >= 6 {
		return 0
	}
	return dy
}

// LeakyReLU computes y = x where x > 0, else slope·x. y may be x.
func LeakyReLU[T kernel.Float](x, y []T, slope float64) {
	mapped(x, y, func(x, y *float32, n int) { vecLeakyReLU(x, y, n, float32(slope)) },
		func(v float32) float32 { return leak32(v, v, float32(slope)) }, func(v float64) float64 { return leak(v, v, slope) })
}

// LeakyReLUGrad computes dx = dy where x > 0, else slope·dy. dx may be dy.
func LeakyReLUGrad[T kernel.Float](x, dy, dx []T, slope float64) {
	zipped(x, dy, dx, func(x, dy, dx *float32, n int) { vecLeakyReLUGrad(x, dy, dx, n, float32(slope)) },
		func(v, d float32) float32 { return leak32(v, d, float32(slope)) }, func(v, d float64) float64 { return leak(v, d, slope) })
}

func leak(x, v, slope float64) float64 {
	if x > 0 {
		return v
	}
	return v * slope
}

// leak32 selects as unless does.
func leak32(x, v, slope float32) float32 {
	b, whole := math.Float32bits(v*slope), math.Float32bits(v)
	if x > 0 {
		b = whole
	}
	return math.Float32frombits(b)
}

// Sigmoid computes y = 1/(1+exp(−x)). y may be x.
func Sigmoid[T kernel.Float](x, y []T) { mapped(x, y, vecSigmoid, sigmoid32, sigmoid64) }

func sigmoid64(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

// SigmoidGrad computes dx = dy·y·(1−y) from the output y. dx may be dy.
func SigmoidGrad[T kernel.Float](y, dy, dx []T) {
	zipped(y, dy, dx, vecSigmoidGrad, sigmoidSlope[float32], sigmoidSlope[float64])
}

func sigmoidSlope[T kernel.Float](y, dy T) T { return T(dy*y) * (1 - y) }

// SiLU computes y = x·σ(x). y may be x.
func SiLU[T kernel.Float](x, y []T) {
	if inBlocks[T]() {
		y := kernel.As32(y)
		eachLogistic(kernel.As32(x), itself, func(i int, x, less float32) { y[i] = gated32(x, x, less) })
		return
	}
	mapped(x, y, vecSilu, silu32, func(v float64) float64 { return v * sigmoid64(v) })
}

// SiLUGrad computes dx = dy·σ(x)·(1 + x·σ(−x)). dx may be dy.
func SiLUGrad[T kernel.Float](x, dy, dx []T) {
	if inBlocks[T]() {
		dy, dx := kernel.As32(dy), kernel.As32(dx)
		eachLogistic(kernel.As32(x), itself, func(i int, x, less float32) { dx[i] = siluSlope32(x, less) * dy[i] })
		return
	}
	zipped(x, dy, dx, vecSiluGrad, siluGrad32, func(v, d float64) float64 {
		s := sigmoid64(v)
		return d * s * (1 + v*(1-s))
	})
}

// SiLUAndSlope computes y = SiLU(x) and replaces x by SiLU'(x), to the bits of SiLU and of
// SiLUGrad for dy = 1. y is not x.
func SiLUAndSlope(x, y []float32) {
	if inBlocks[float32]() {
		eachLogistic(x, itself, func(i int, v, less float32) { y[i], x[i] = gated32(v, v, less), siluSlope32(v, less) })
		return
	}
	withSlope(x, y, vecSiluAndSlope, silu32, siluGrad32)
}

func itself(x float32) float32 { return x }

// Softplus computes y = log(1 + exp(beta·x)) / beta, and x where beta·x is above
// the threshold. y may be x.
func Softplus[T kernel.Float](x, y []T, beta, threshold float64) {
	b, top := float32(beta), float32(threshold)
	mapped(x, y, func(x, y *float32, n int) { vecSoftplus(x, y, n, b, top) }, func(v float32) float32 { return softplus32(v, b, top) },
		func(v float64) float64 {
			if t := beta * v; !(t > threshold) {
				return math.Log1p(math.Exp(t)) / beta
			}
			return v
		})
}

// SoftplusGrad computes dx = dy·σ(beta·x), and dy above the threshold. dx may be dy.
func SoftplusGrad[T kernel.Float](x, dy, dx []T, beta, threshold float64) {
	b, top := float32(beta), float32(threshold)
	zipped(x, dy, dx, func(x, dy, dx *float32, n int) { vecSoftplusGrad(x, dy, dx, n, b, top) },
		func(v, d float32) float32 { return softplusGrad32(v, d, b, top) },
		func(v, d float64) float64 {
			if t := beta * v; !(t > threshold) {
				return d / (1 + math.Exp(-t))
			}
			return d
		})
}

// Tanh computes y = tanh(x). y may be x.
func Tanh[T kernel.Float](x, y []T) { mapped(x, y, vecTanh, tanh32, math.Tanh) }

// TanhGrad computes dx = dy·(1−y²) from the output y. dx may be dy.
func TanhGrad[T kernel.Float](y, dy, dx []T) {
	zipped(y, dy, dx, vecTanhGrad, tanhSlope[float32], tanhSlope[float64])
}

func tanhSlope[T kernel.Float](y, dy T) T { return dy * (1 - T(y*y)) }
