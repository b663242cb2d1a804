package pointwise

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/trainctl/trainctl/core/engine/kernel/gen/isa"
)

// VPCMPUW predicate: greater, of unsigned numbers.
const isAbove = 6

// bf16Elementwise emits the passes over bfloat16 of any length.
func bf16Elementwise(a *isa.Asm) {
	a.Kernel("halfReLU", "func(x, y *uint16, n int)", "computes y = max(x, 0).")
	x, y, n := a.Gp("x"), a.Gp("y"), a.Gp("n")
	positive := notInRange(a, 0x8001, 0xff80) // the negative ones, without −0 and NaN
	halves32(a, n, []reg.GPVirtual{x, y}, func(k reg.Register) {
		prefetch(a, x, y)
		v, keep := a.Vec(), a.K()
		a.VMOVDQU16_Z(operand.Mem{Base: x}, k, v)
		positive(v, keep)
		a.VMOVDQU16_Z(v, keep, v)
		a.VMOVDQU16(v, k, operand.Mem{Base: y})
	})

	a.Kernel("halfReLUGrad", "func(y, dy, dx *uint16, n int)", "computes dx = dy where y is not ≤ 0.")
	y, dy, dx, n := a.Gp("y"), a.Gp("dy"), a.Gp("dx"), a.Gp("n")
	positive = notInRange(a, 0x8000, 0xff80)
	halves32(a, n, []reg.GPVirtual{y, dy, dx}, func(k reg.Register) {
		v, g, keep, some := a.Vec(), a.Vec(), a.K(), a.K()
		a.VMOVDQU16_Z(operand.Mem{Base: y}, k, v)
		a.VMOVDQU16_Z(operand.Mem{Base: dy}, k, g)
		positive(v, keep)
		a.VPTESTMW(v, v, some)
		a.KANDD(some, keep, keep)
		a.VMOVDQU16_Z(g, keep, g)
		a.VMOVDQU16(g, k, operand.Mem{Base: dx})
	})

	halfReLU6(a)

	order := a.WordOrder("halfAddOrder")
	a.Kernel("halfAdd", "func(x, y, sum *uint16, n int)", "computes sum = x + y, rounded once.")
	x, y, sum, n := a.Gp("x"), a.Gp("y"), a.Gp("sum"), a.Gp("n")
	high, interleave := a.HighHalves(), a.Vec()
	a.VMOVUPS(order, interleave)
	halves32(a, n, []reg.GPVirtual{x, y, sum}, func(k reg.Register) {
		prefetch(a, x, y, sum)
		u, v := a.Vec(), a.Vec()
		a.VMOVDQU16_Z(operand.Mem{Base: x}, k, u)
		a.VMOVDQU16_Z(operand.Mem{Base: y}, k, v)
		left, right := a.SplitPairs16(u, high)
		left2, right2 := a.SplitPairs16(v, high)
		a.VADDPS(left2, left, left)
		a.VADDPS(right2, right, right)
		a.VMOVDQU16(a.JoinPairs16(left, right, interleave), k, operand.Mem{Base: sum})
	})
}

// Words of bfloat16 numbers.
const (
	sixBF16, infBF16 = 0x40c0, 0x7f80
	negative         = 0x8000
)

// halfReLU6 is halfReLU with an upper end.
func halfReLU6(a *isa.Asm) {
	a.Kernel("halfReLU6", "func(x, y *uint16, n int)", "computes y = min(max(x, 0), 6).")
	x, y, n := a.Gp("x"), a.Gp("y"), a.Gp("n")
	positive, below, six := notInRange(a, negative+1, negative+infBF16), notInRange(a, sixBF16+1, infBF16), everyWord(a, sixBF16)
	halves32(a, n, []reg.GPVirtual{x, y}, func(k reg.Register) {
		prefetch(a, x, y)
		v, keep := a.Vec(), a.K()
		a.VMOVDQU16_Z(operand.Mem{Base: x}, k, v)
		positive(v, keep)
		a.VMOVDQU16_Z(v, keep, v)
		below(v, keep)
		a.VPBLENDMW(v, six, keep, v)
		a.VMOVDQU16(v, k, operand.Mem{Base: y})
	})

	a.Kernel("halfReLU6Grad", "func(y, dy, dx *uint16, n int)", "computes dx = dy where y is not ≤ 0 nor ≥ 6.")
	y, dy, dx, n := a.Gp("y"), a.Gp("dy"), a.Gp("dx"), a.Gp("n")
	positive, below = notInRange(a, negative, negative+infBF16), notInRange(a, sixBF16, infBF16)
	halves32(a, n, []reg.GPVirtual{y, dy, dx}, func(k reg.Register) {
		v, g, keep, some := a.Vec(), a.Vec(), a.K(), a.K()
		a.VMOVDQU16_Z(operand.Mem{Base: y}, k, v)
		a.VMOVDQU16_Z(operand.Mem{Base: dy}, k, g)
		positive(v, keep)
		a.VPTESTMW(v, v, some)
		a.KANDD(some, keep, keep)
		below(v, some)
		a.KANDD(some, keep, keep)
		a.VMOVDQU16_Z(g, keep, g)
		a.VMOVDQU16(g, k, operand.Mem{Base: dx})
	})
}

// prefetch asks for what lies two pages ahead, at whose ends the hardware stops.
func prefetch(a *isa.Asm, pointers ...reg.GPVirtual) {
	for _, p := range pointers {
		a.PREFETCHT1(operand.Mem{Base: p, Disp: 8192})
	}
}

// Floats16 runs body for every 16 of n float32, with the mask of those that are
// there, stores what it returns rounded to y, and moves x and y along.
func Floats16(a *isa.Asm, n, x, y reg.GPVirtual, body func(k reg.Register) reg.VecVirtual) {
	a.TESTQ(n, n)
	a.JZ(operand.LabelRef("done"))
	a.Label("loop")
	k := a.FirstLanes(n)
	v := body(k)
	a.RoundPairs(v, v)
	a.VMOVDQU16(a.Lower(v), k, operand.Mem{Base: y})
	a.ADDQ(operand.U8(64), x)
	a.ADDQ(operand.U8(32), y)
	a.SUBQ(operand.U8(16), n)
	a.JG(operand.LabelRef("loop"))
	a.Label("done")
	a.Ret()
}

// notInRange prepares a test for words outside [lo, hi].
func notInRange(a *isa.Asm, lo, hi uint32) func(v reg.VecVirtual, k reg.Register) {
	first, span := everyWord(a, lo), everyWord(a, hi-lo)
	return func(v reg.VecVirtual, k reg.Register) {
		t := a.Vec()
		a.VPSUBW(first, v, t)
		a.VPCMPUW(operand.U8(isAbove), span, t, k)
	}
}

func everyWord(a *isa.Asm, v uint32) reg.VecVirtual {
	r, z := a.GP32(), a.Vec()
	a.MOVL(operand.U32(v), r)
	a.VPBROADCASTW(r, z)
	return z
}

// halves32 runs body for every 32 of n bfloat16, which may be none, with the mask of
// those that are left, and moves the pointers on.
func halves32(a *isa.Asm, n reg.GPVirtual, pointers []reg.GPVirtual, body func(k reg.Register)) {
	mask := a.BlockMask(32, a.KMOVD)
	a.TESTQ(n, n)
	a.JZ(operand.LabelRef("done"))
	mask.Loop(n, pointers, body)
	a.Label("done")
	a.Ret()
}
