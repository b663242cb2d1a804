package pointwise

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/trainctl/trainctl/core/engine/kernel/gen/isa"
)

// elementwise emits kernels whose results are the bits of the reference: no
// product is fused into a sum.
func elementwise(a *isa.Asm) {
	for _, op := range []struct {
		name, doc string
		emit      func(x, y, dst operand.Op)
	}{
		{"add", "computes dst = a + b.", a.Add},
		{"mul", "computes dst = a·b.", a.Mul},
	} {
		a.Kernel(op.name, "func(a, b, dst *float32, n int)", op.doc+" n is a multiple of 16.")
		pa, pb, dst := a.Gp("a"), a.Gp("b"), a.Gp("dst")
		v := a.Vec()
		a.Blocks(a.Gp("n"), func(off reg.GPVirtual, d int) {
			a.Move(isa.Offset(pa, off, d), v)
			op.emit(isa.Offset(pb, off, d), v, v)
			a.Move(v, isa.Offset(dst, off, d))
		})
		a.Ret()
	}
	scale(a)
	axpy(a)
	relu(a)
	reluGrad(a)
}

// storeBlocks emits the loop that stores v, after body, to dst, and ends the function.
func storeBlocks(a *isa.Asm, v reg.VecVirtual, dst reg.GPVirtual, body func(off reg.GPVirtual, d int)) {
	a.Blocks(a.Gp("n"), func(off reg.GPVirtual, d int) {
		body(off, d)
		a.Move(v, isa.Offset(dst, off, d))
	})
	a.Ret()
}

func scale(a *isa.Asm) {
	a.Kernel("scale", "func(dst *float32, alpha float32, n int)", "computes dst *= alpha. n is a multiple of 16.")
	dst, alpha, v := a.Gp("dst"), a.Splat("alpha"), a.Vec()
	storeBlocks(a, v, dst, func(off reg.GPVirtual, d int) {
		a.Mul(isa.Offset(dst, off, d), alpha, v)
	})
}

func axpy(a *isa.Asm) {
	a.Kernel("axpy", "func(dst *float32, alpha float32, src *float32, n int)", "computes dst += alpha·src. n is a multiple of 16.")
	dst, alpha, src, v := a.Gp("dst"), a.Splat("alpha"), a.Gp("src"), a.Vec()
	storeBlocks(a, v, dst, func(off reg.GPVirtual, d int) {
		a.Mul(isa.Offset(src, off, d), alpha, v)
		a.Add(isa.Offset(dst, off, d), v, v)
	})
}

// relu relies on VMAXPS giving its second source, here x, when either is NaN.
func relu(a *isa.Asm) {
	a.Kernel("relu", "func(x, y *float32, n int)", "computes y = max(x, 0), NaN staying NaN. n is a multiple of 16.")
	x, y, zero, v := a.Gp("x"), a.Gp("y"), a.Vec(), a.Vec()
	a.Zero(zero)
	storeBlocks(a, v, y, func(off reg.GPVirtual, d int) {
		a.Max(isa.Offset(x, off, d), zero, v)
	})
}

func reluGrad(a *isa.Asm) {
	a.Kernel("reluGrad", "func(y, dy, dx *float32, n int)", "computes dx = 0 where y ≤ 0, else dy. n is a multiple of 16.")
	y, dy, dx, zero, v := a.Gp("y"), a.Gp("dy"), a.Gp("dx"), a.Vec(), a.Vec()
	a.Zero(zero)
	storeBlocks(a, v, dx, func(off reg.GPVirtual, d int) {
		a.Passed(isa.Offset(y, off, d), isa.Offset(dy, off, d), zero, v)
	})
}
