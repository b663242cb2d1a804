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
	mean, scale, shift, zero := a.broadcast(t, poolMean), a.broadcast(t, poolScale), a.broadcast(t, poolShift), a.vec()
	a.zero(zero)
	maxPool(a, func(v reg.VecVirtual) {
		a.VSUBPS(mean, v, v)
		a.VMULPS(scale, v, v)
		a.VADDPS(shift, v, v)
	}, func(v reg.VecVirtual) { a.VMAXPS(v, zero, v) }) // of zero and NaN, the second operand
}

// broadcast fills a vector with a float32 field.
func (a *asm) broadcast(t reg.GPVirtual, offset int) reg.VecVirtual {
	v := a.vec()
	a.VBROADCASTSS(operand.Mem{Base: t, Disp: offset}, v)
	return v
}

// maxPool emits the body of a pooling: each vector goes through before as it is
// loaded, each maximum through after.
func maxPool(a *asm, before, after func(reg.VecVirtual)) {
	t := a.gp("poolTile")
	rows, x, stride, y, idx, out := a.field(t, poolRows), a.field(t, poolX), a.field(t, poolStride), a.field(t, poolY), a.field(t, poolIdx), a.field(t, poolOut)
	lo, hi, n := a.laneMask(t, poolLo), a.laneMask(t, poolHi), a.laneMask(t, poolN)
	evens, place, width, one := a.vec(), a.vec(), a.splat32(t, poolW), a.vec()
	table := a.field(t, poolEvens)
	a.VMOVUPS(operand.Mem{Base: table}, evens)
	a.addInt(evens, a.splat32(t, poolAt), place)
	a.ones(one)
	next := a.vec() // how much place grows per row of outputs
	a.addInt(width, width, next)

	a.Label("row")
	best, at := a.vec(), a.vec()
	v0, v1 := a.splitPairs(x, lo, hi, evens, one, before)
	a.VMOVAPS(v0, best)
	a.VMOVAPS(place, at)
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
	a.ADDQ(out, y)
	a.ADDQ(out, idx)
	a.DECQ(rows)
	a.JNZ(operand.LabelRef("row"))
	a.ret()
}

// splitPairs loads two vectors of a row, and gives its even and its odd elements.
func (a *asm) splitPairs(x reg.GPVirtual, lo, hi reg.Register, evens, one reg.VecVirtual, before func(reg.VecVirtual)) (even, odd reg.VecVirtual) {
	v0, v1 := a.vec(), a.vec()
	first, second := operand.Mem{Base: x}, operand.Mem{Base: x, Disp: 4 * a.lanes}
	even, odd = a.vec(), a.vec()
	if a.lanes == 16 {
		a.VMOVUPS_Z(first, lo, v0)
		a.VMOVUPS_Z(second, hi, v1)
		before(v0)
		before(v1)
		odds := a.vec()
		a.VPADDD(evens, one, odds)
		a.VMOVAPS(v0, even)
		a.VPERMT2PS(v1, evens, even)
		a.VMOVAPS(v0, odd)
		a.VPERMT2PS(v1, odds, odd)
		return even, odd
	}
	a.VMASKMOVPS(first, lo, v0)
	a.VMASKMOVPS(second, hi, v1)
	before(v0)
	before(v1)
	a.VSHUFPS(operand.U8(0b10001000), v1, v0, even)
	a.VPERMPD(operand.U8(0b11011000), even, even)
	a.VSHUFPS(operand.U8(0b11011101), v1, v0, odd)
	a.VPERMPD(operand.U8(0b11011000), odd, odd)
	return even, odd
}

// keepMax replaces best and its place where v is greater, or NaN.
func (a *asm) keepMax(v, place, best, at reg.VecVirtual) {
	if a.lanes == 16 {
		k, nan := a.K(), a.K()
		a.VCMPPS(operand.U8(isGreater), best, v, k)
		a.VCMPPS(operand.U8(isNaN), v, v, nan)
		a.KORW(nan, k, k)
		a.VMOVAPS(v, k, best)
		a.VMOVDQU32(place, k, at)
		return
	}
	k, nan := a.vec(), a.vec()
	a.VCMPPS(operand.U8(isGreater), best, v, k)
	a.VCMPPS(operand.U8(isNaN), v, v, nan)
	a.VORPS(nan, k, k)
	a.VBLENDVPS(k, v, best, best)
	a.VBLENDVPS(k, place, at, at)
}

func (a *asm) storeLanes(v reg.VecVirtual, n reg.Register, m operand.Mem) {
	if a.lanes == 16 {
		a.VMOVUPS(v, n, m)
	} else {
		a.VMASKMOVPS(v, n, m)
	}
}

func (a *asm) addInt(x, y, sum reg.VecVirtual) { a.VPADDD(x, y, sum) }

// ones sets every 32-bit lane to 1.
func (a *asm) ones(v reg.VecVirtual) {
	r, x := a.GP32(), a.XMM()
	a.MOVL(operand.U32(1), r)
	a.VMOVD(r, x)
	a.VPBROADCASTD(x, v)
}

// splat32 broadcasts the low half of a field.
func (a *asm) splat32(t reg.GPVirtual, offset int) reg.VecVirtual {
	v := a.vec()
	a.VPBROADCASTD(operand.Mem{Base: t, Disp: offset}, v)
	return v
}
