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
	dropout(a)
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

// dropout clears by the bits of −1, so that what is dropped may be a NaN.
func dropout(a *isa.Asm) {
	a.Kernel("dropout", "func(mask *uint8, scale float32, x, y *float32, n int)", "computes y = x·scale where mask is 1, and 0 where it is 0. n is a multiple of 16.")
	mask, scale, x, y, zero := a.Gp("mask"), a.Splat("scale"), a.Gp("x"), a.Gp("y"), a.Vec()
	a.Zero(zero)
	a.Bytes(a.Gp("n"), func(i reg.GPVirtual, d int) {
		keep, v := a.Vec(), a.Vec()
		a.VPMOVZXBD(isa.Offset(mask, i, d), keep)
		a.VPSUBD(keep, zero, keep)
		a.Mul(operand.Mem{Base: x, Index: i, Scale: 4, Disp: 4 * d}, scale, v)
		a.And(keep, v, v)
		a.Move(v, operand.Mem{Base: y, Index: i, Scale: 4, Disp: 4 * d})
	})
	a.Ret()
}
