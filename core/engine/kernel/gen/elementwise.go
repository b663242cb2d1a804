package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// elementwise emits kernels whose results are the bits of the reference: no
// product is fused into a sum.
func elementwise(a *asm) {
	for _, op := range []struct {
		name, doc string
		emit      func(x, y, dst operand.Op)
	}{
		{"add", "computes dst = a + b.", a.add},
		{"mul", "computes dst = a·b.", a.mul},
	} {
		a.function(op.name, "func(a, b, dst *float32, n int)", op.doc+" n is a multiple of 16.")
		pa, pb, dst := a.gp("a"), a.gp("b"), a.gp("dst")
		v := a.vec()
		a.blocks(a.gp("n"), func(off reg.GPVirtual, d int) {
			a.move(at(pa, off, d), v)
			op.emit(at(pb, off, d), v, v)
			a.move(v, at(dst, off, d))
		})
		a.ret()
	}
	scale(a)
	axpy(a)
	relu(a)
	reluGrad(a)
}

func scale(a *asm) {
	a.function("scale", "func(dst *float32, alpha float32, n int)", "computes dst *= alpha. n is a multiple of 16.")
	dst, alpha, v := a.gp("dst"), a.splat("alpha"), a.vec()
	a.blocks(a.gp("n"), func(off reg.GPVirtual, d int) {
		a.mul(at(dst, off, d), alpha, v)
		a.move(v, at(dst, off, d))
	})
	a.ret()
}

func axpy(a *asm) {
	a.function("axpy", "func(dst *float32, alpha float32, src *float32, n int)", "computes dst += alpha·src. n is a multiple of 16.")
	dst, alpha, src, v := a.gp("dst"), a.splat("alpha"), a.gp("src"), a.vec()
	a.blocks(a.gp("n"), func(off reg.GPVirtual, d int) {
		a.mul(at(src, off, d), alpha, v)
		a.add(at(dst, off, d), v, v)
		a.move(v, at(dst, off, d))
	})
	a.ret()
}

// relu relies on VMAXPS giving its second source, here x, when either is NaN.
func relu(a *asm) {
	a.function("relu", "func(x, y *float32, n int)", "computes y = max(x, 0), NaN staying NaN. n is a multiple of 16.")
	x, y, zero, v := a.gp("x"), a.gp("y"), a.vec(), a.vec()
	a.zero(zero)
	a.blocks(a.gp("n"), func(off reg.GPVirtual, d int) {
		a.max(at(x, off, d), zero, v)
		a.move(v, at(y, off, d))
	})
	a.ret()
}

const notLessOrEqual = 22 // VCMPPS predicate NLE_UQ: true for NaN

func reluGrad(a *asm) {
	a.function("reluGrad", "func(y, dy, dx *float32, n int)", "computes dx = 0 where y ≤ 0, else dy. n is a multiple of 16.")
	y, dy, dx, zero, v := a.gp("y"), a.gp("dy"), a.gp("dx"), a.vec(), a.vec()
	a.zero(zero)
	a.blocks(a.gp("n"), func(off reg.GPVirtual, d int) {
		a.passed(at(y, off, d), at(dy, off, d), zero, v)
		a.move(v, at(dx, off, d))
	})
	a.ret()
}
