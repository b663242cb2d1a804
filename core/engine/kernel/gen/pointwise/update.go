package pointwise

import (
	"math"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/trainctl/trainctl/core/engine/kernel/gen/isa"
)

// Offsets of the fields of optimizer.adamStep and optimizer.rmsStep; from their constants on they are float32.
const (
	adamP, adamGrad, adamM, adamV, adamMax, adamN = 0, 8, 16, 24, 32, 40
	adamConstants                                 = 48
	adamLeast                                     = adamConstants + 4*8

	rmsP, rmsGrad, rmsSquare, rmsBuf, rmsMean, rmsN = 0, 8, 16, 24, 32, 40
	rmsConstants                                    = 48
	rmsLeast                                        = rmsConstants + 4*6
)

// update has the optimizers' steps.
var update = isa.All(sgd, sgdMomentum, adam, rmsprop, average)

// settle is optimizer.settled: lanes of less than 2⁻¹⁰⁰ become zeros of their sign.
func (f *formula) settle(x reg.VecVirtual) reg.VecVirtual {
	const sign = 1 << 31
	size, zero := f.result(f.And, x, f.bits(math.MaxInt32)), f.result(f.And, x, f.bits(sign))
	return f.Above(f.load(0x1p-100), size, zero, x)
}

// sgd emits the step with weight decay and without momentum.
func sgd(a *isa.Asm) {
	a.Kernel("sgd", "func(p, grad *float32, lr, weightDecay float32, n int)", "computes p -= lr·(g + weightDecay·p). n is a multiple of 16.")
	p, g, lr, decay := a.Gp("p"), a.Gp("grad"), a.Splat("lr"), a.Splat("weightDecay")
	a.Blocks(a.Gp("n"), func(off reg.GPVirtual, disp int) {
		w, d := decayed(a, p, g, decay, off, disp)
		a.Mul(lr, d, d)
		a.Sub(d, w, w)
		a.Move(w, isa.Offset(p, off, disp))
	})
	a.Ret()
}

// decayed loads a weight, and its gradient with weight decay.
func decayed(a *isa.Asm, p, g reg.GPVirtual, decay reg.VecVirtual, off reg.GPVirtual, disp int) (w, d reg.VecVirtual) {
	w, d = a.Vec(), a.Vec()
	a.Move(isa.Offset(p, off, disp), w)
	a.Mul(w, decay, d)
	a.Add(isa.Offset(g, off, disp), d, d)
	return w, d
}

// sgdMomentum emits the steps with momentum.
// settleSquare is settle for what is not negative, and ends at the least that counts.
func (f *formula) settleSquare(x reg.VecVirtual, step reg.GPVirtual, least int) reg.VecVirtual {
	zero := f.Vec()
	f.Zero(zero)
	return f.Above(f.Splat32(step, least), x, zero, x)
}

func sgdMomentum(a *isa.Asm) {
	f := NewFormula(a, "sgdConstants")
	for _, k := range []struct {
		name, doc string
		nesterov  bool
	}{
		{"sgdMomentum", "p -= lr·buf", false},
		{"sgdNesterov", "p -= lr·(d + momentum·buf)", true},
	} {
		a.Kernel(k.name, "func(p, grad, buf *float32, lr, momentum, undamped, weightDecay float32, n int)",
			"computes d = g + weightDecay·p, buf = momentum·buf + undamped·d, settled, "+k.doc+". n is a multiple of 16.")
		p, g, buf := a.Gp("p"), a.Gp("grad"), a.Gp("buf")
		lr, momentum, undamped, decay := a.Splat("lr"), a.Splat("momentum"), a.Splat("undamped"), a.Splat("weightDecay")
		a.Blocks(a.Gp("n"), func(off reg.GPVirtual, disp int) {
			b, share := a.Vec(), a.Vec()
			w, d := decayed(a, p, g, decay, off, disp)
			a.Mul(undamped, d, share)
			a.Mul(isa.Offset(buf, off, disp), momentum, b)
			a.Add(share, b, b)
			b = f.settle(b)
			a.Move(b, isa.Offset(buf, off, disp))
			if k.nesterov {
				a.Mul(momentum, b, b)
				a.Add(b, d, b)
			}
			a.Mul(lr, b, b)
			a.Sub(b, w, w)
			a.Move(w, isa.Offset(p, off, disp))
		})
		a.Ret()
	}
}

// adam emits the steps with and without AMSGrad; the constants are the fields of adamStep.
func adam(a *isa.Asm) {
	f := NewFormula(a, "adamConstants")
	adamWith(f, "adam", "updates a parameter and its moments", false)
	adamWith(f, "amsGrad", "updates a parameter, its moments and their maximum", true)
}

func adamWith(a *formula, name, doc string, amsGrad bool) {
	a.Kernel(name, "func(adamStep *byte)", doc+". n is a multiple of 16.")
	s := a.Gp("adamStep")
	p, grad, m, v, n := a.Field(s, adamP), a.Field(s, adamGrad), a.Field(s, adamM), a.Field(s, adamV), a.Field(s, adamN)
	var most reg.GPVirtual
	if amsGrad {
		most = a.Field(s, adamMax)
	}
	var constant [8]reg.VecVirtual
	for i := range constant {
		constant[i] = a.Splat32(s, adamConstants+4*i)
	}
	shrink, decay, w1, w2 := constant[0], constant[1], constant[2], constant[3]
	b2, stepSize, rootScale, eps := constant[4], constant[5], constant[6], constant[7]
	w, d, t := a.Vec(), a.Vec(), a.Vec()
	a.Blocks(n, func(off reg.GPVirtual, disp int) {
		a.Mul(isa.Offset(p, off, disp), shrink, w)
		a.Mul(decay, w, d)
		a.Add(isa.Offset(grad, off, disp), d, d)

		first := a.Vec()
		a.Move(isa.Offset(m, off, disp), first)
		a.Sub(first, d, t)
		a.Mul(w1, t, t)
		a.Add(t, first, first)
		first = a.settle(first)
		a.Move(first, isa.Offset(m, off, disp))

		a.Mul(w2, d, t)
		a.Mul(d, t, t)
		a.Mul(isa.Offset(v, off, disp), b2, d)
		a.Add(t, d, d)
		d = a.settleSquare(d, s, adamLeast)
		a.Move(d, isa.Offset(v, off, disp))
		if amsGrad {
			raise(a.Asm, isa.Offset(most, off, disp), d)
		}

		a.Sqrt(d, d)
		a.Div(rootScale, d, d)
		a.Add(eps, d, d)
		a.Mul(stepSize, first, first)
		a.Div(d, first, first)
		a.Sub(first, w, w)
		a.Move(w, isa.Offset(p, off, disp))
	})
	a.Ret()
}

// raise sets both to the larger, or to NaN if either is: VMAXPS gives its other argument then.
func raise(a *isa.Asm, at operand.Mem, x reg.VecVirtual) {
	old, other := a.Vec(), a.Vec()
	a.Move(at, old)
	a.Max(x, old, other)
	a.Max(old, x, x)
	a.Or(other, x, x)
	a.Move(x, at)
}

// average emits a step of a moving average.
func average(a *isa.Asm) {
	a.Kernel("average", "func(mean, p *float32, share float32, n int)", "computes mean += share·(p − mean). n is a multiple of 16.")
	mean, p, share := a.Gp("mean"), a.Gp("p"), a.Splat("share")
	a.Blocks(a.Gp("n"), func(off reg.GPVirtual, disp int) {
		m, d := a.Vec(), a.Vec()
		a.Move(isa.Offset(mean, off, disp), m)
		a.Move(isa.Offset(p, off, disp), d)
		a.Sub(m, d, d)
		a.Mul(share, d, d)
		a.Add(d, m, m)
		a.Move(m, isa.Offset(mean, off, disp))
	})
	a.Ret()
}

// rmsprop emits the steps with and without momentum and centering; the constants are the fields of rmsStep.
func rmsprop(a *isa.Asm) {
	f := NewFormula(a, "rmspropConstants")
	for _, k := range []struct {
		name, doc          string
		momentum, centered bool
	}{
		{"rmsprop", "updates a parameter and its mean square", false, false},
		{"rmspropMomentum", "updates a parameter, its mean square and its momentum", true, false},
		{"rmspropCentered", "updates a parameter, its mean square and its mean gradient", false, true},
		{"rmspropCenteredMomentum", "updates a parameter, its mean square, its momentum and its mean gradient", true, true},
	} {
		rmspropWith(f, k.name, k.doc, k.momentum, k.centered)
	}
}

func rmspropWith(a *formula, name, doc string, withMomentum, centered bool) {
	a.Kernel(name, "func(rmsStep *byte)", doc+". n is a multiple of 16.")
	s := a.Gp("rmsStep")
	p, grad, square, buf, mean := a.Field(s, rmsP), a.Field(s, rmsGrad), a.Field(s, rmsSquare), a.Field(s, rmsBuf), a.Field(s, rmsMean)
	var constant [6]reg.VecVirtual
	for i := range constant {
		constant[i] = a.Splat32(s, rmsConstants+4*i)
	}
	rate, alpha, rest, eps, momentum, decay := constant[0], constant[1], constant[2], constant[3], constant[4], constant[5]
	a.Blocks(a.Field(s, rmsN), func(off reg.GPVirtual, disp int) {
		w, d := decayed(a.Asm, p, grad, decay, off, disp)
		v, t := a.Vec(), a.Vec()
		a.Mul(isa.Offset(square, off, disp), alpha, v)
		a.Mul(rest, d, t)
		a.Mul(d, t, t)
		a.Add(t, v, v)
		v = a.settleSquare(v, s, rmsLeast)
		a.Move(v, isa.Offset(square, off, disp))
		if centered {
			m := a.Vec()
			a.Move(isa.Offset(mean, off, disp), m)
			a.Sub(m, d, t)
			a.Mul(rest, t, t)
			a.Add(t, m, m)
			m = a.settle(m)
			a.Move(m, isa.Offset(mean, off, disp))
			a.Mul(m, m, m)
			a.Sub(m, v, v)
		}
		a.Sqrt(v, v)
		a.Add(eps, v, v)
		a.Div(v, d, d)
		if withMomentum {
			a.Mul(isa.Offset(buf, off, disp), momentum, t)
			a.Add(t, d, d)
			d = a.settle(d)
			a.Move(d, isa.Offset(buf, off, disp))
		}
		a.Mul(rate, d, d)
		a.Sub(d, w, w)
		a.Move(w, isa.Offset(p, off, disp))
	})
	a.Ret()
}
