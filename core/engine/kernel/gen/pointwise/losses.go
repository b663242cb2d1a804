package pointwise

import (
	"math"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/trainctl/trainctl/core/engine/kernel/gen/isa"
)

// losses emits the losses of single elements with their gradients.
func losses(a *isa.Asm) {
	f := NewFormula(a, "lossConstants")
	f.elementLoss("mse", "(x − t)²", "", func(x, t reg.VecVirtual) (slope reg.VecVirtual, add addLoss) {
		d := f.minus(x, t)
		return f.times(d, f.Value(2)), func(part lossPart, sum reg.VecVirtual) {
			wide := part(d)
			f.Fma64(wide, wide, sum)
		}
	})
	f.elementLoss("l1", "|x − t|", "", func(x, t reg.VecVirtual) (slope reg.VecVirtual, add addLoss) {
		d, zero := f.minus(x, t), f.Vec()
		f.Zero(zero)
		slope = f.Above(d, zero, f.load(1), f.Above(zero, d, f.load(-1), d))
		f.And(f.bits(math.MaxInt32), d, d)
		return slope, func(part lossPart, sum reg.VecVirtual) { f.Add64(part(d), sum, sum) }
	})
	f.huber()
	f.elementLoss("bce", "max(x, 0) − x·t + log(1 + exp(−|x|))", "", f.crossEntropy)
}

// addLoss adds the losses of half of a vector's elements to sums of float64, of which part makes what they need.
type (
	addLoss  func(part lossPart, sum reg.VecVirtual)
	lossPart func(v reg.VecVirtual) reg.VecVirtual
)

// elementLoss emits a loss, of which of gives the derivatives, and what adds the losses up.
func (f *formula) elementLoss(name, doc, params string, of func(x, t reg.VecVirtual) (slope reg.VecVirtual, add addLoss)) {
	f.Kernel(name+"Loss", "func(x, target, dx *float32, sums *float64"+params+", scale float32, n int)",
		"adds "+doc+" to sums, element i to number i mod 8, and computes dx, scale times the derivative. n is a multiple of 16.")
	x, target, dx, to, scale := f.Gp("x"), f.Gp("target"), f.Gp("dx"), f.Gp("sums"), f.Splat("scale")
	sums := f.Vecs(16 / f.Lanes)
	at := func(i int) operand.Mem { return operand.Mem{Base: to, Disp: 4 * f.Lanes * i} }
	for i, sum := range sums {
		f.Move(at(i), sum)
	}
	f.Blocks(f.Gp("n"), func(off reg.GPVirtual, d int) {
		v, t := f.Vec(), f.Vec()
		f.Move(isa.Offset(x, off, d), v)
		f.Move(isa.Offset(target, off, d), t)
		slope, add := of(v, t)
		f.Mul(scale, slope, slope)
		f.Move(slope, isa.Offset(dx, off, d))
		for half := range 2 {
			add(func(v reg.VecVirtual) reg.VecVirtual { return f.WidenHalf(half, v) }, sums[half%len(sums)])
		}
	})
	for i, sum := range sums {
		f.Move(sum, at(i))
	}
	f.Ret()
}

// huber emits half the square of a difference up to delta, and the line that continues it.
func (f *formula) huber() {
	var delta operand.Op
	f.elementLoss("huber", "half the square of x − t up to delta, and the line that continues it,", ", delta float32", func(x, t reg.VecVirtual) (slope reg.VecVirtual, add addLoss) {
		if delta == nil { // in the loop, where the function has begun
			delta = f.Splat("delta")
		}
		d := f.minus(x, t)
		size := f.result(f.And, d, f.bits(math.MaxInt32))
		least := f.Vec()
		f.Min(size, delta, least) // a NaN stays one
		slope = f.result(f.And, d, f.bits(1<<31))
		f.Or(least, slope, slope)
		return slope, func(part lossPart, sum reg.VecVirtual) {
			m, line, half := part(least), part(size), f.Vec()
			const half64 = 0x3fe00000 // the upper word of 0.5
			f.Mul64(f.pair(0, half64), m, half)
			f.Sub64(half, line, line)
			f.Mul64(m, line, line)
			f.Add64(line, sum, sum)
		}
	})
}

// crossEntropy is that of the probability σ(x), whose target is t.
func (f *formula) crossEntropy(x, t reg.VecVirtual) (slope reg.VecVirtual, add addLoss) {
	e := f.decay(x)
	log := f.logOfOneAnd(e)
	slope = f.minus(f.sigmoidFrom(x, e), t)
	return slope, func(part lossPart, sum reg.VecVirtual) {
		zero := f.Vec()
		f.Zero(zero)
		loss := part(f.result(f.Max, zero, x))
		f.Fnma64(part(x), part(t), loss)
		f.Add64(part(log), loss, loss)
		f.Add64(loss, sum, sum)
	}
}

// logOfOneAnd is log(1+e) for 0 ≤ e ≤ 1.
func (f *formula) logOfOneAnd(e reg.VecVirtual) reg.VecVirtual {
	s := f.over(e, f.plus(e, f.Value(2)))
	return f.times(s, f.horner(f.times(s, s), coefficient("logTerms")))
}
