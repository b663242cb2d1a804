package main

import (
	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// VPCMPUW predicate: greater, of unsigned numbers.
const isAbove = 6

// bf16Elementwise emits the passes over bfloat16 of any length.
func bf16Elementwise(a *asm) {
	a.function("halfReLU", "func(x, y *uint16, n int)", "computes y = max(x, 0).")
	x, y, n := a.gp("x"), a.gp("y"), a.gp("n")
	positive := a.notInRange(0x8001, 0xff80) // the negative ones, without −0 and NaN
	a.halves32(n, []reg.GPVirtual{x, y}, func(k reg.Register) {
		v, keep := a.vec(), a.K()
		a.VMOVDQU16_Z(operand.Mem{Base: x}, k, v)
		positive(v, keep)
		a.VMOVDQU16_Z(v, keep, v)
		a.VMOVDQU16(v, k, operand.Mem{Base: y})
	})

	a.function("halfReLUGrad", "func(y, dy, dx *uint16, n int)", "computes dx = dy where y is not ≤ 0.")
	y, dy, dx, n := a.gp("y"), a.gp("dy"), a.gp("dx"), a.gp("n")
	positive = a.notInRange(0x8000, 0xff80)
	a.halves32(n, []reg.GPVirtual{y, dy, dx}, func(k reg.Register) {
		v, g, keep, some := a.vec(), a.vec(), a.K(), a.K()
		a.VMOVDQU16_Z(operand.Mem{Base: y}, k, v)
		a.VMOVDQU16_Z(operand.Mem{Base: dy}, k, g)
		positive(v, keep)
		a.VPTESTMW(v, v, some)
		a.KANDD(some, keep, keep)
		a.VMOVDQU16_Z(g, keep, g)
		a.VMOVDQU16(g, k, operand.Mem{Base: dx})
	})

	order := a.wordOrder("halfAddOrder")
	a.function("halfAdd", "func(x, y, sum *uint16, n int)", "computes sum = x + y, rounded once.")
	x, y, sum, n := a.gp("x"), a.gp("y"), a.gp("sum"), a.gp("n")
	high, interleave := a.highHalves(), a.vec()
	a.VMOVUPS(order, interleave)
	a.halves32(n, []reg.GPVirtual{x, y, sum}, func(k reg.Register) {
		u, v := a.vec(), a.vec()
		a.VMOVDQU16_Z(operand.Mem{Base: x}, k, u)
		a.VMOVDQU16_Z(operand.Mem{Base: y}, k, v)
		left, right := a.splitPairs16(u, high)
		left2, right2 := a.splitPairs16(v, high)
		a.VADDPS(left2, left, left)
		a.VADDPS(right2, right, right)
		a.VMOVDQU16(a.joinPairs16(left, right, interleave), k, operand.Mem{Base: sum})
	})
}

// bf16Finish emits the ends of matrix products: rows of float32 become bfloat16.
func bf16Finish(a *asm) {
	a.function("finishRow", "func(x, bias *float32, biasStep int, floor float32, y *uint16, n int)",
		"computes y = max(x + bias, floor), rounded once. The bias moves by biasStep bytes behind every 16.")
	x, bias, step, y, n, floor := a.gp("x"), a.gp("bias"), a.gp("biasStep"), a.gp("y"), a.gp("n"), a.splat("floor")
	a.floats16(n, x, y, func(k reg.Register) reg.VecVirtual {
		v, w := a.vec(), a.vec()
		a.VMOVUPS_Z(operand.Mem{Base: x}, k, v)
		a.VMOVUPS_Z(operand.Mem{Base: bias}, k, w)
		a.VADDPS(w, v, v)
		a.VMAXPS(v, floor, v) // of floor and NaN, the second operand
		a.ADDQ(step, bias)
		return v
	})

	a.function("gateRow", "func(x *float32, gate, y *uint16, n int)", "computes y = x where gate is not ≤ 0, rounded once.")
	x, gate, y, n := a.gp("x"), a.gp("gate"), a.gp("y"), a.gp("n")
	a.floats16(n, x, y, func(k reg.Register) reg.VecVirtual {
		v, g := a.vec(), a.vec()
		a.VMOVUPS_Z(operand.Mem{Base: x}, k, v)
		a.VPMOVZXWD_Z(operand.Mem{Base: gate}, k, g)
		a.VPSLLD(operand.U8(16), g, g)
		a.keepPositive(g, v)
		a.ADDQ(operand.U8(32), gate)
		return v
	})
}

// floats16 runs body for every 16 of n float32, with the mask of those that are
// there, stores what it returns rounded to y, and moves x and y along.
func (a *asm) floats16(n, x, y reg.GPVirtual, body func(k reg.Register) reg.VecVirtual) {
	a.TESTQ(n, n)
	a.JZ(operand.LabelRef("done"))
	a.Label("loop")
	k := a.firstLanes(n)
	v := body(k)
	a.roundPairs(v, v)
	a.VMOVDQU16(a.lower(v), k, operand.Mem{Base: y})
	a.ADDQ(operand.U8(64), x)
	a.ADDQ(operand.U8(32), y)
	a.SUBQ(operand.U8(16), n)
	a.JG(operand.LabelRef("loop"))
	a.Label("done")
	a.ret()
}

// notInRange prepares a test for words outside [lo, hi].
func (a *asm) notInRange(lo, hi uint32) func(v reg.VecVirtual, k reg.Register) {
	first, span := a.words(lo), a.words(hi-lo)
	return func(v reg.VecVirtual, k reg.Register) {
		t := a.vec()
		a.VPSUBW(first, v, t)
		a.VPCMPUW(operand.U8(isAbove), span, t, k)
	}
}

func (a *asm) words(v uint32) reg.VecVirtual {
	r, z := a.GP32(), a.vec()
	a.MOVL(operand.U32(v), r)
	a.VPBROADCASTW(r, z)
	return z
}

// halves32 runs body for every 32 of n bfloat16, which may be none, with the mask of
// those that are left, and moves the pointers on.
func (a *asm) halves32(n reg.GPVirtual, pointers []reg.GPVirtual, body func(k reg.Register)) {
	mask := a.blockMask(32, a.KMOVD)
	a.TESTQ(n, n)
	a.JZ(operand.LabelRef("done"))
	mask.loop(n, pointers, body)
	a.Label("done")
	a.ret()
}

// wordOrder is the table by which joinPairs16 interleaves.
func (a *asm) wordOrder(name string) operand.Mem {
	order := a.StaticGlobal(name)
	a.DataAttributes(attr.RODATA | attr.NOPTR)
	for i := range 16 {
		a.AddDatum(4*i, operand.U32(i|(16+i)<<16))
	}
	return order
}

// joinPairs16 rounds and interleaves what splitPairs16 separated.
func (a *asm) joinPairs16(left, right, order reg.VecVirtual) reg.VecVirtual {
	v := a.vec()
	a.roundTwo(left, right, v)
	a.VPERMW(v, order, v)
	return v
}
