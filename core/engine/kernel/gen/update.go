package main

import "github.com/mmcloughlin/avo/reg"

// Offsets of the fields of optimizer.adamStep; from adamConstants on they are float32.
const (
	adamP, adamGrad, adamM, adamV, adamN = 0, 8, 16, 24, 32
	adamConstants                        = 40
)

// update has the optimizers' steps.
var update = all(sgd, adam)

// sgd emits the momentum step after the first, without maximize.
func sgd(a *asm) {
	a.function("sgdMomentum", "func(p, grad, buf *float32, lr, momentum, undamped, weightDecay float32, n int)",
		"computes d = g + weightDecay·p, buf = momentum·buf + undamped·d, p -= lr·buf. n is a multiple of 16.")
	p, g, buf := a.gp("p"), a.gp("grad"), a.gp("buf")
	lr, momentum, undamped, decay := a.splat("lr"), a.splat("momentum"), a.splat("undamped"), a.splat("weightDecay")
	w, d, b := a.vec(), a.vec(), a.vec()
	a.blocks(a.gp("n"), func(off reg.GPVirtual, disp int) {
		a.move(at(p, off, disp), w)
		a.mul(w, decay, d)
		a.add(at(g, off, disp), d, d)
		a.mul(undamped, d, d)
		a.mul(at(buf, off, disp), momentum, b)
		a.add(d, b, b)
		a.move(b, at(buf, off, disp))
		a.mul(lr, b, b)
		a.sub(b, w, w)
		a.move(w, at(p, off, disp))
	})
	a.ret()
}

// adam emits the step without AMSGrad; the constants are the fields of adamStep.
func adam(a *asm) {
	a.function("adam", "func(adamStep *byte)", "updates a parameter and its moments. n is a multiple of 16.")
	s := a.gp("adamStep")
	p, grad, m, v, n := a.field(s, adamP), a.field(s, adamGrad), a.field(s, adamM), a.field(s, adamV), a.field(s, adamN)
	var constant [8]reg.VecVirtual
	for i := range constant {
		constant[i] = a.splat32(s, adamConstants+4*i)
	}
	shrink, decay, w1, w2 := constant[0], constant[1], constant[2], constant[3]
	b2, stepSize, rootScale, eps := constant[4], constant[5], constant[6], constant[7]
	w, d, t := a.vec(), a.vec(), a.vec()
	a.blocks(n, func(off reg.GPVirtual, disp int) {
		a.mul(at(p, off, disp), shrink, w)
		a.mul(decay, w, d)
		a.add(at(grad, off, disp), d, d)

		first := a.vec()
		a.move(at(m, off, disp), first)
		a.sub(first, d, t)
		a.mul(w1, t, t)
		a.add(t, first, first)
		a.move(first, at(m, off, disp))

		a.mul(w2, d, t)
		a.mul(d, t, t)
		a.mul(at(v, off, disp), b2, d)
		a.add(t, d, d)
		a.move(d, at(v, off, disp))

		a.sqrt(d, d)
		a.div(rootScale, d, d)
		a.add(eps, d, d)
		a.mul(stepSize, first, first)
		a.div(d, first, first)
		a.sub(first, w, w)
		a.move(w, at(p, off, disp))
	})
	a.ret()
}
