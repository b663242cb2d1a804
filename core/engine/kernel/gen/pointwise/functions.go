package pointwise

import (
	"math"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/trainctl/trainctl/core/engine/kernel/gen/isa"
)

// functions emits elementwise's functions of float32, and their gradients.
func functions(a *isa.Asm) {
	f := NewFormula(a, "functionConstants")
	for _, m := range []struct {
		name, doc string
		of        func(x reg.VecVirtual) reg.VecVirtual
	}{
		{"sigmoid", "σ(x) = 1/(1+exp(−x))", f.sigmoid},
		{"tanh", "tanh(x)", f.tanh},
		{"silu", "x·σ(x)", f.SiLU},
		{"gelu", "x·Φ(x)", f.gelu},
		{"geluTanh", "x·σ(2u(x))", f.geluTanh},
	} {
		f.unary(m.name, m.doc, m.of)
	}
	for _, m := range []struct {
		name, doc string
		of        func(saved reg.VecVirtual, dy operand.Mem) reg.VecVirtual
	}{
		{"sigmoidGrad", "dy·y·(1−y)", func(y reg.VecVirtual, dy operand.Mem) reg.VecVirtual {
			return f.times(f.times(y, dy), f.minus(f.load(1), y))
		}},
		{"tanhGrad", "dy·(1−y²)", func(y reg.VecVirtual, dy operand.Mem) reg.VecVirtual {
			return f.times(f.minus(f.load(1), f.times(y, y)), dy)
		}},
		{"siluGrad", "dy·σ(x)·(1+x·σ(−x))", func(x reg.VecVirtual, dy operand.Mem) reg.VecVirtual { return f.times(f.siluSlope(x), dy) }},
		{"geluGrad", "dy·(Φ(x)+x·φ(x))", func(x reg.VecVirtual, dy operand.Mem) reg.VecVirtual { return f.times(f.geluSlope(x), dy) }},
		{"geluTanhGrad", "dy·(σ(2u)+x·σ(2u)·σ(−2u)·2u')", func(x reg.VecVirtual, dy operand.Mem) reg.VecVirtual { return f.times(f.geluTanhSlope(x), dy) }},
	} {
		f.binary(m.name, m.doc, m.of)
	}
	for _, m := range []struct {
		name, doc string
		of        func(x reg.VecVirtual) (y, slope reg.VecVirtual)
	}{
		{"siluAndSlope", "x·σ(x)", f.SiLUAndSlope},
		{"geluAndSlope", "x·Φ(x)", f.geluAndSlope},
		{"geluTanhAndSlope", "x·σ(2u(x))", f.geluTanhAndSlope},
	} {
		f.andSlope(m.name, m.doc, m.of)
	}
	f.softplus()
	f.clipped()
}

// andSlope emits a function that leaves its slope in place of its argument. Both have the
// bits of the function alone and of its gradient for dy = 1.
func (f *formula) andSlope(name, doc string, of func(x reg.VecVirtual) (y, slope reg.VecVirtual)) {
	f.Kernel(name, "func(x, y *float32, n int)", "computes y = "+doc+", and replaces x by the slope there. n is a multiple of 16.")
	x, y := f.Gp("x"), f.Gp("y")
	f.LongBlocks(f.Gp("n"), func(off reg.GPVirtual, d int) {
		v := f.Vec()
		f.Move(isa.Offset(x, off, d), v)
		value, slope := of(v)
		f.Move(value, isa.Offset(y, off, d))
		f.Move(slope, isa.Offset(x, off, d))
	})
	f.Ret()
}

// unary emits a function of one argument.
func (f *formula) unary(name, doc string, of func(x reg.VecVirtual) reg.VecVirtual) {
	f.Kernel(name, "func(x, y *float32, n int)", "computes y = "+doc+". n is a multiple of 16.")
	f.mapped(of)
}

func (f *formula) mapped(of func(x reg.VecVirtual) reg.VecVirtual) {
	x, y := f.Gp("x"), f.Gp("y")
	f.LongBlocks(f.Gp("n"), func(off reg.GPVirtual, d int) {
		v := f.Vec()
		f.Move(isa.Offset(x, off, d), v)
		f.Move(of(v), isa.Offset(y, off, d))
	})
	f.Ret()
}

// binary emits a gradient, from what its function saved.
func (f *formula) binary(name, doc string, of func(saved reg.VecVirtual, dy operand.Mem) reg.VecVirtual) {
	f.Kernel(name, "func(saved, dy, dx *float32, n int)", "computes dx = "+doc+". n is a multiple of 16.")
	f.zipped(of)
}

func (f *formula) zipped(of func(saved reg.VecVirtual, dy operand.Mem) reg.VecVirtual) {
	saved, dy, dx := f.Gp("saved"), f.Gp("dy"), f.Gp("dx")
	f.LongBlocks(f.Gp("n"), func(off reg.GPVirtual, d int) {
		v := f.Vec()
		f.Move(isa.Offset(saved, off, d), v)
		f.Move(of(v, isa.Offset(dy, off, d)), isa.Offset(dx, off, d))
	})
	f.Ret()
}

// tanh is −p/(2+p) with p = exp(−2|x|) − 1, with the sign of x.
func (f *formula) tanh(x reg.VecVirtual) reg.VecVirtual {
	const bound = 10
	rest, power := f.expParts(f.times(f.size(x, bound), f.Value(-2)), 0)
	p := f.plus(f.times(power, rest), f.minus(power, f.Value(1)))
	y := f.over(p, f.plus(p, f.Value(2)))
	sign := f.result(f.And, x, f.bits(1<<31))
	f.And(f.bits(math.MaxInt32), y, y)
	f.Or(sign, y, y)
	return y
}

// normalTail gives exp(−x²/2)·2^tinyBias and Φ(−|x|). Products are added without rounding: that of |x| with
// itself leaves what its rounding lost, and the chains are half as long.
func (f *formula) normalTail(x reg.VecVirtual) (e, tail reg.VecVirtual) {
	const bound = 14.5
	size := f.size(x, bound)
	square := f.times(size, size)
	lost := f.copied(square)
	f.Fnma(size, size, lost)
	e = f.halfExp(square, lost)
	over := f.fusedHorner(size, scaled(coefficient("tailOver"), 0x1p-64))
	return e, f.over(f.times(e, over), f.fusedHorner(size, coefficient("tailUnder")))
}

// halfExp is exp(−(square − lost)/2)·2^tinyBias.
func (f *formula) halfExp(square, lost reg.VecVirtual) reg.VecVirtual {
	const bias = magic + exponent + tinyBias
	power := f.load(bias)
	f.Fma(f.Value(-math.Log2E/2), square, power)
	n := f.minus(power, f.Value(bias))
	r, low := f.times(square, f.Value(-0.5)), f.times(lost, f.Value(-0.5))
	f.Fnma(f.Value(ln2High32), n, r)
	f.Fma(f.Value(ln2Low32), n, low)
	r = f.minus(r, low)
	f.ShiftLeft(23, power, power)
	return f.fusedExp(r, power)
}

// fusedExp is exp(r)·power. It overwrites r.
func (f *formula) fusedExp(r, power reg.VecVirtual) reg.VecVirtual {
	c, rr := coefficient("expTerms32"), f.times(r, r)
	high, rest := f.fusedHorner(r, c[1:3]), f.fusedHorner(r, c[3:])
	f.Fma(f.Value(float64(c[0])), rr, high)
	f.Fma(high, rr, rest)
	f.Fma(rest, rr, r)
	e := f.copied(power)
	f.Fma(r, power, e)
	return e
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
	return f.times(x, f.BySign(x, tail, f.minus(f.load(1), tail)))
}

func (f *formula) geluSlope(x reg.VecVirtual) reg.VecVirtual {
	_, slope := f.geluAndSlope(x)
	return slope
}

func (f *formula) geluAndSlope(x reg.VecVirtual) (y, slope reg.VecVirtual) {
	e, tail := f.normalTail(x)
	share := f.BySign(x, tail, f.minus(f.load(1), tail))
	y = f.times(x, share)
	f.Mul(f.Value(0x1p-64/math.Sqrt(2*math.Pi)), e, e)
	f.Fma(x, e, share)
	return y, share
}

// The polynomial 2u(x) = x·(geluLinear + geluCube·x²) of GELU's tanh form.
var (
	geluLinear = 2 * math.Sqrt(2/math.Pi)
	geluCube   = geluLinear * 0.044715
)

func (f *formula) cubic(x reg.VecVirtual) reg.VecVirtual {
	u := f.times(f.times(x, x), f.Value(geluCube))
	f.Add(f.Value(geluLinear), u, u)
	f.Mul(x, u, u)
	return u
}

func (f *formula) geluTanh(x reg.VecVirtual) reg.VecVirtual { return f.gated(x, f.cubic(x)) }

func (f *formula) geluTanhSlope(x reg.VecVirtual) reg.VecVirtual {
	at, opposite := f.sigmoids(f.cubic(x))
	return f.geluTanhSlopeFrom(x, at, opposite)
}

func (f *formula) geluTanhAndSlope(x reg.VecVirtual) (y, slope reg.VecVirtual) {
	at, opposite := f.sigmoids(f.cubic(x))
	return f.times(x, at), f.geluTanhSlopeFrom(x, at, opposite)
}

// geluTanhSlopeFrom is the slope, given σ(2u(x)) and σ(−2u(x)).
func (f *formula) geluTanhSlopeFrom(x, at, opposite reg.VecVirtual) reg.VecVirtual {
	const bound = 32
	size := f.size(x, bound)
	slope := f.times(f.times(size, size), f.Value(3*geluCube))
	f.Add(f.Value(geluLinear), slope, slope)
	sum := f.copied(at)
	f.Fma(f.times(x, f.times(at, opposite)), slope, sum)
	return sum
}

// SiLU is x·σ(x).
func (f *formula) SiLU(x reg.VecVirtual) reg.VecVirtual { return f.gated(x, x) }

func (f *formula) siluSlope(x reg.VecVirtual) reg.VecVirtual {
	at, opposite := f.sigmoids(x)
	return f.siluSlopeFrom(x, at, opposite)
}

// SiLUAndSlope is SiLU and its slope.
func (f *formula) SiLUAndSlope(x reg.VecVirtual) (y, slope reg.VecVirtual) {
	at, opposite := f.sigmoids(x)
	return f.times(x, at), f.siluSlopeFrom(x, at, opposite)
}

// siluSlopeFrom is the slope, given σ(x) and σ(−x).
func (f *formula) siluSlopeFrom(x, at, opposite reg.VecVirtual) reg.VecVirtual {
	sum := f.load(1)
	f.Fma(x, opposite, sum)
	return f.times(at, sum)
}

// softplus emits log(1+exp(beta·x))/beta, which is x above the threshold of beta·x, and its gradient.
func (f *formula) softplus() {
	f.Kernel("softplus", "func(x, y *float32, n int, beta, threshold float32)", "computes y = log(1+exp(beta·x))/beta, or x where beta·x > threshold. n is a multiple of 16.")
	beta, threshold := f.Splat("beta"), f.Splat("threshold")
	f.mapped(func(x reg.VecVirtual) reg.VecVirtual {
		t, zero := f.times(x, beta), f.Vec()
		e := f.decay(t)
		log := f.logOfOneAnd(e)
		f.Zero(zero)
		f.Add(f.result(f.Max, zero, t), log, log)
		return f.Above(t, threshold, x, f.over(log, beta))
	})

	f.Kernel("softplusGrad", "func(saved, dy, dx *float32, n int, beta, threshold float32)", "computes dx = dy·σ(beta·x), or dy where beta·x > threshold. n is a multiple of 16.")
	beta, threshold = f.Splat("beta"), f.Splat("threshold")
	f.zipped(func(x reg.VecVirtual, from operand.Mem) reg.VecVirtual {
		t := f.times(x, beta)
		dy := f.loaded(from)
		return f.Above(t, threshold, dy, f.times(f.sigmoid(t), dy))
	})
}

// clipped emits what is linear in parts.
func (f *formula) clipped() {
	f.Kernel("leakyReLU", "func(x, y *float32, n int, slope float32)", "computes y = x where x > 0, else slope·x. n is a multiple of 16.")
	slope, zero := f.Splat("slope"), f.Vec()
	f.Zero(zero)
	f.mapped(func(x reg.VecVirtual) reg.VecVirtual { return f.Above(x, zero, x, f.times(x, slope)) })

	f.Kernel("leakyReLUGrad", "func(saved, dy, dx *float32, n int, slope float32)", "computes dx = dy where x > 0, else slope·dy. n is a multiple of 16.")
	slope, zero = f.Splat("slope"), f.Vec()
	f.Zero(zero)
	f.zipped(func(x reg.VecVirtual, from operand.Mem) reg.VecVirtual {
		dy := f.loaded(from)
		return f.Above(x, zero, dy, f.times(dy, slope))
	})

	f.Kernel("relu6", "func(x, y *float32, n int)", "computes y = min(max(x, 0), 6), NaN staying NaN. n is a multiple of 16.")
	zero, six := f.Vec(), f.load(6)
	f.Zero(zero)
	f.mapped(func(x reg.VecVirtual) reg.VecVirtual {
		y := f.result(f.Max, zero, x)
		f.Min(y, six, y)
		return y
	})

	f.Kernel("relu6Grad", "func(saved, dy, dx *float32, n int)", "computes dx = 0 where y ≤ 0 or y ≥ 6, else dy. n is a multiple of 16.")
	zero, six = f.Vec(), f.load(6)
	f.Zero(zero)
	f.zipped(func(y reg.VecVirtual, from operand.Mem) reg.VecVirtual {
		return f.AtLeast(y, six, zero, f.AtLeast(zero, y, zero, f.loaded(from)))
	})
}
