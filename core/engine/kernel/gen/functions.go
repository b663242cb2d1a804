package main

import (
	"math"

	"github.com/mmcloughlin/avo/reg"
)

// functions emits elementwise's functions of float32, and their gradients.
func functions(a *asm) {
	f := newFormula(a, "functionConstants")
	for _, m := range []struct {
		name, doc string
		of        func(x reg.VecVirtual) reg.VecVirtual
	}{
		{"sigmoid", "σ(x) = 1/(1+exp(−x))", f.sigmoid},
		{"tanh", "tanh(x)", f.tanh},
		{"silu", "x·σ(x)", func(x reg.VecVirtual) reg.VecVirtual { return f.times(x, f.sigmoid(x)) }},
		{"gelu", "x·Φ(x)", f.gelu},
		{"geluTanh", "x·σ(2u(x))", func(x reg.VecVirtual) reg.VecVirtual { return f.times(x, f.sigmoid(f.cubic(x))) }},
	} {
		f.unary(m.name, m.doc, m.of)
	}
	for _, m := range []struct {
		name, doc string
		of        func(saved, dy reg.VecVirtual) reg.VecVirtual
	}{
		{"sigmoidGrad", "dy·y·(1−y)", func(y, dy reg.VecVirtual) reg.VecVirtual {
			return f.times(f.times(dy, y), f.minus(f.load(1), y))
		}},
		{"tanhGrad", "dy·(1−y²)", func(y, dy reg.VecVirtual) reg.VecVirtual {
			return f.times(dy, f.minus(f.load(1), f.times(y, y)))
		}},
		{"siluGrad", "dy·σ(x)·(1+x·σ(−x))", func(x, dy reg.VecVirtual) reg.VecVirtual { return f.times(f.siluSlope(x), dy) }},
		{"geluGrad", "dy·(Φ(x)+x·φ(x))", func(x, dy reg.VecVirtual) reg.VecVirtual { return f.times(f.geluSlope(x), dy) }},
		{"geluTanhGrad", "dy·(σ(2u)+x·σ(2u)·σ(−2u)·2u')", func(x, dy reg.VecVirtual) reg.VecVirtual { return f.times(f.geluTanhSlope(x), dy) }},
	} {
		f.binary(m.name, m.doc, m.of)
	}
	f.softplus()
	f.clipped()
}

// unary emits a function of one argument.
func (f *formula) unary(name, doc string, of func(x reg.VecVirtual) reg.VecVirtual) {
	f.function(name, "func(x, y *float32, n int)", "computes y = "+doc+". n is a multiple of 16.")
	f.mapped(of)
}

func (f *formula) mapped(of func(x reg.VecVirtual) reg.VecVirtual) {
	x, y := f.gp("x"), f.gp("y")
	f.blocks(f.gp("n"), func(off reg.GPVirtual, d int) {
		v := f.vec()
		f.move(at(x, off, d), v)
		f.move(of(v), at(y, off, d))
	})
	f.ret()
}

// binary emits a gradient, from what its function saved.
func (f *formula) binary(name, doc string, of func(saved, dy reg.VecVirtual) reg.VecVirtual) {
	f.function(name, "func(saved, dy, dx *float32, n int)", "computes dx = "+doc+". n is a multiple of 16.")
	f.zipped(of)
}

func (f *formula) zipped(of func(saved, dy reg.VecVirtual) reg.VecVirtual) {
	saved, dy, dx := f.gp("saved"), f.gp("dy"), f.gp("dx")
	f.blocks(f.gp("n"), func(off reg.GPVirtual, d int) {
		v, g := f.vec(), f.vec()
		f.move(at(saved, off, d), v)
		f.move(at(dy, off, d), g)
		f.move(of(v, g), at(dx, off, d))
	})
	f.ret()
}

// tanh is −p/(2+p) with p = exp(−2|x|) − 1, with the sign of x.
func (f *formula) tanh(x reg.VecVirtual) reg.VecVirtual {
	const bound = 10
	rest, power := f.expParts(f.times(f.size(x, bound), f.value(-2)), nil, 0)
	p := f.plus(f.times(power, rest), f.minus(power, f.value(1)))
	y := f.over(p, f.plus(p, f.value(2)))
	sign := f.result(f.and, x, f.bits(1<<31))
	f.and(f.bits(math.MaxInt32), y, y)
	f.or(sign, y, y)
	return y
}

// normalTail gives exp(−x²/2)·2^tinyBias and Φ(−|x|). |x| is split, so that its square is exact.
func (f *formula) normalTail(x reg.VecVirtual) (e, tail reg.VecVirtual) {
	const bound = 14.5
	size := f.size(x, bound)
	upper := f.result(f.and, size, f.bits(0xfffff000))
	less := f.times(f.times(f.minus(size, upper), f.plus(size, upper)), f.value(0.5))
	e = f.exp(f.times(f.times(upper, upper), f.value(-0.5)), less)
	over := f.horner(size, scaled(coefficient("tailOver"), 0x1p-64))
	return e, f.over(f.times(e, over), f.horner(size, coefficient("tailUnder")))
}

// scaled multiplies coefficients by a power of two.
func scaled(c []float32, by float32) []float32 {
	out := make([]float32, len(c))
	for i, v := range c {
		out[i] = v * by
	}
	return out
}

func (f *formula) gelu(x reg.VecVirtual) reg.VecVirtual {
	_, tail := f.normalTail(x)
	return f.times(x, f.bySign(x, tail, f.minus(f.load(1), tail)))
}

func (f *formula) geluSlope(x reg.VecVirtual) reg.VecVirtual {
	e, tail := f.normalTail(x)
	share := f.bySign(x, tail, f.minus(f.load(1), tail))
	f.mul(f.value(0x1p-64/math.Sqrt(2*math.Pi)), e, e)
	return f.plus(share, f.times(x, e))
}

// The polynomial 2u(x) = x·(geluLinear + geluCube·x²) of GELU's tanh form.
var (
	geluLinear = 2 * math.Sqrt(2/math.Pi)
	geluCube   = geluLinear * 0.044715
)

func (f *formula) cubic(x reg.VecVirtual) reg.VecVirtual {
	u := f.times(f.times(x, x), f.value(geluCube))
	f.add(f.value(geluLinear), u, u)
	f.mul(x, u, u)
	return u
}

func (f *formula) geluTanhSlope(x reg.VecVirtual) reg.VecVirtual {
	const bound = 32
	at, opposite := f.sigmoids(f.cubic(x))
	size := f.size(x, bound)
	slope := f.times(f.times(size, size), f.value(3*geluCube))
	f.add(f.value(geluLinear), slope, slope)
	f.mul(f.times(x, f.times(at, opposite)), slope, slope)
	return f.plus(at, slope)
}

func (f *formula) siluSlope(x reg.VecVirtual) reg.VecVirtual {
	at, opposite := f.sigmoids(x)
	return f.times(at, f.plus(f.times(x, opposite), f.value(1)))
}

// softplus emits log(1+exp(beta·x))/beta, which is x above the threshold of beta·x, and its gradient.
func (f *formula) softplus() {
	f.function("softplus", "func(x, y *float32, n int, beta, threshold float32)", "computes y = log(1+exp(beta·x))/beta, or x where beta·x > threshold. n is a multiple of 16.")
	beta, threshold := f.splat("beta"), f.splat("threshold")
	f.mapped(func(x reg.VecVirtual) reg.VecVirtual {
		t, zero := f.times(x, beta), f.vec()
		e := f.decay(t)
		s := f.over(e, f.plus(e, f.value(2)))
		log := f.times(s, f.horner(f.times(s, s), coefficient("logTerms")))
		f.zero(zero)
		f.add(f.result(f.max, zero, t), log, log)
		return f.above(t, threshold, x, f.over(log, beta))
	})

	f.function("softplusGrad", "func(saved, dy, dx *float32, n int, beta, threshold float32)", "computes dx = dy·σ(beta·x), or dy where beta·x > threshold. n is a multiple of 16.")
	beta, threshold = f.splat("beta"), f.splat("threshold")
	f.zipped(func(x, dy reg.VecVirtual) reg.VecVirtual {
		t := f.times(x, beta)
		return f.above(t, threshold, dy, f.times(f.sigmoid(t), dy))
	})
}

// clipped emits what is linear in parts.
func (f *formula) clipped() {
	f.function("leakyReLU", "func(x, y *float32, n int, slope float32)", "computes y = x where x > 0, else slope·x. n is a multiple of 16.")
	slope, zero := f.splat("slope"), f.vec()
	f.zero(zero)
	f.mapped(func(x reg.VecVirtual) reg.VecVirtual { return f.above(x, zero, x, f.times(x, slope)) })

	f.function("leakyReLUGrad", "func(saved, dy, dx *float32, n int, slope float32)", "computes dx = dy where x > 0, else slope·dy. n is a multiple of 16.")
	slope, zero = f.splat("slope"), f.vec()
	f.zero(zero)
	f.zipped(func(x, dy reg.VecVirtual) reg.VecVirtual { return f.above(x, zero, dy, f.times(dy, slope)) })

	f.function("relu6", "func(x, y *float32, n int)", "computes y = min(max(x, 0), 6), NaN staying NaN. n is a multiple of 16.")
	zero, six := f.vec(), f.load(6)
	f.zero(zero)
	f.mapped(func(x reg.VecVirtual) reg.VecVirtual {
		y := f.result(f.max, zero, x)
		f.min(y, six, y)
		return y
	})

	f.function("relu6Grad", "func(saved, dy, dx *float32, n int)", "computes dx = 0 where y ≤ 0 or y ≥ 6, else dy. n is a multiple of 16.")
	zero, six = f.vec(), f.load(6)
	f.zero(zero)
	f.zipped(func(y, dy reg.VecVirtual) reg.VecVirtual {
		return f.atLeast(y, six, zero, f.atLeast(zero, y, zero, dy))
	})
}
