package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Offsets of the fields of poolTile.
const (
	poolRows, poolX, poolStride, poolY, poolIdx   = 0, 8, 16, 24, 32
	poolOut, poolLo, poolHi, poolN, poolAt, poolW = 40, 48, 56, 64, 72, 80
	poolEvens                                     = 88
	poolMean, poolScale, poolShift                = 96, 100, 104
)

// VCMPPS predicates: greater, false for NaN; and either is NaN.
const (
	isGreater = 30
	isNaN     = 3
)

// pool emits 2×2 max pooling with stride 2 of one vector of outputs per row, alone
// and as the end of batch norm and ReLU.
func pool(a *asm) {
	a.function("maxPool2", "func(poolTile *byte)", "pools pairs of rows, and writes maxima and their places.")
	maxPool(a, func(reg.VecVirtual) {}, func(reg.VecVirtual) {})
	if a.lanes != 16 { // AVX2 has too few registers
		return
	}
	a.function("normPool2", "func(poolTile *byte)", "normalises, pools pairs of rows, and writes what is positive of the maxima, and their places.")
	t := a.gp("poolTile")
	f, zero := affine{a.broadcast(t, poolMean), a.broadcast(t, poolScale), a.broadcast(t, poolShift)}, a.vec()
	a.zero(zero)
	maxPool(a, func(v reg.VecVirtual) { a.affine(f, v) }, func(v reg.VecVirtual) { a.max(v, zero, v) }) // of zero and NaN, the second operand
}

// broadcast fills a vector with a float32 field.
func (a *asm) broadcast(t reg.GPVirtual, offset int) reg.VecVirtual {
	v := a.vec()
	a.spread(operand.Mem{Base: t, Disp: offset}, v)
	return v
}

// maxPool emits the body of a pooling: each vector goes through before as it is
// loaded, each maximum through after.
func maxPool(a *asm, before, after func(reg.VecVirtual)) {
	t := a.gp("poolTile")
	rows, x, stride, y, idx, out := a.field(t, poolRows), a.field(t, poolX), a.field(t, poolStride), a.field(t, poolY), a.field(t, poolIdx), a.field(t, poolOut)
	lo, hi, n := a.laneMask(t, poolLo), a.laneMask(t, poolHi), a.stored(a.laneMask(t, poolN))
	evens, place, width, one := a.vec(), a.vec(), a.splat32(t, poolW), a.vec()
	table := a.field(t, poolEvens)
	a.move(operand.Mem{Base: table}, evens)
	a.addInt(evens, a.splat32(t, poolAt), place)
	a.ones(one)
	next := a.vec() // how much place grows per row of outputs
	a.addInt(width, width, next)

	a.Label("row")
	best, at := a.vec(), a.vec()
	v0, v1 := a.splitPairs(x, lo, hi, evens, one, before)
	a.copy(v0, best)
	a.copy(place, at)
	here := a.vec()
	a.addInt(place, one, here)
	a.keepMax(v1, here, best, at)
	a.ADDQ(stride, x)
	v0, v1 = a.splitPairs(x, lo, hi, evens, one, before)
	a.addInt(place, width, here)
	a.keepMax(v0, here, best, at)
	a.addInt(here, one, here)
	a.keepMax(v1, here, best, at)
	after(best)
	a.storeLanes(best, n, operand.Mem{Base: y})
	a.storeLanes(at, n, operand.Mem{Base: idx})
	a.addInt(place, next, place)
	a.ADDQ(stride, x)
	a.advance(out, y, idx)
	a.countDown(rows, "row")
	a.ret()
}

// ones sets every 32-bit lane to 1.
func (a *asm) ones(v reg.VecVirtual) {
	r, x := a.GP32(), a.XMM()
	a.MOVL(operand.U32(1), r)
	a.VMOVD(r, x)
	a.spreadInt(x, v)
}

// splat32 broadcasts the low half of a field.
func (a *asm) splat32(t reg.GPVirtual, offset int) reg.VecVirtual {
	v := a.vec()
	a.spreadInt(operand.Mem{Base: t, Disp: offset}, v)
	return v
}
