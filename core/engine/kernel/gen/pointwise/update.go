package pointwise

import (
	"github.com/mmcloughlin/avo/reg"

	"github.com/trainctl/trainctl/core/engine/kernel/gen/isa"
)

// Offsets of the fields of optimizer.adamStep; from adamConstants on they are float32.
const (
	adamP, adamGrad, adamM, adamV, adamN = 0, 8, 16, 24, 32
	adamConstants                        = 40
)

// update has the optimizers' steps.
var update = isa.All(sgd, adam)

// sgd emits the momentum step after the first, without maximize.
func sgd(a *isa.Asm) {
	a.Kernel("sgdMomentum", "func(p, grad, buf *float32, lr, momentum, undamped, weightDecay float32, n int)",
		"computes d = g + weightDecay·p, buf = momentum·buf + undamped·d, p -= lr·buf. n is a multiple of 16.")
	p, g, buf := a.Gp("p"), a.Gp("grad"), a.Gp("buf")
	lr, momentum, undamped, decay := a.Splat("lr"), a.Splat("momentum"), a.Splat("undamped"), a.Splat("weightDecay")
	w, d, b := a.Vec(), a.Vec(), a.Vec()
	a.Blocks(a.Gp("n"), func(off reg.GPVirtual, disp int) {
		a.Move(isa.Offset(p, off, disp), w)
		a.Mul(w, decay, d)
		a.Add(isa.Offset(g, off, disp), d, d)
		a.Mul(undamped, d, d)
		a.Mul(isa.Offset(buf, off, disp), momentum, b)
		a.Add(d, b, b)
		a.Move(b, isa.Offset(buf, off, disp))
		a.Mul(lr, b, b)
		a.Sub(b, w, w)
		a.Move(w, isa.Offset(p, off, disp))
	})
	a.Ret()
}

// adam emits the step without AMSGrad; the constants are the fields of adamStep.
func adam(a *isa.Asm) {
	a.Kernel("adam", "func(adamStep *byte)", "updates a parameter and its moments. n is a multiple of 16.")
	s := a.Gp("adamStep")
	p, grad, m, v, n := a.Field(s, adamP), a.Field(s, adamGrad), a.Field(s, adamM), a.Field(s, adamV), a.Field(s, adamN)
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
		a.Move(first, isa.Offset(m, off, disp))

		a.Mul(w2, d, t)
		a.Mul(d, t, t)
		a.Mul(isa.Offset(v, off, disp), b2, d)
		a.Add(t, d, d)
		a.Move(d, isa.Offset(v, off, disp))

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
