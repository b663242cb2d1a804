package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// half emits the conversions between float32 and the two half types.
func half(a *asm) {
	a.halves("f16From32", "func(src *float32, dst *uint16, n int)", "rounds to binary16.", func(src, dst, off, off2 reg.GPVirtual, d int) {
		h := a.vec()
		a.VMOVUPS(at(src, off, d), h)
		a.VCVTPS2PH(operand.U8(0), h, a.lower(h))
		a.storeHalf(h, at(dst, off2, d/2))
	})
	a.halves("f16To32", "func(dst *float32, src *uint16, n int)", "widens binary16.", func(dst, src, off, off2 reg.GPVirtual, d int) {
		v := a.vec()
		a.VCVTPH2PS(at(src, off2, d/2), v)
		a.VMOVUPS(v, at(dst, off, d))
	})
	a.halves("bf16From32", "func(src *float32, dst *uint16, n int)", "rounds to bfloat16.", func(src, dst, off, off2 reg.GPVirtual, d int) {
		v := a.vec()
		a.VMOVUPS(at(src, off, d), v)
		a.roundBF16(v)
		a.packWords(v)
		a.storeHalf(v, at(dst, off2, d/2))
	})
	a.halves("bf16To32", "func(dst *float32, src *uint16, n int)", "widens bfloat16.", func(dst, src, off, off2 reg.GPVirtual, d int) {
		v := a.vec()
		a.VPMOVZXWD(at(src, off2, d/2), v)
		a.VPSLLD(operand.U8(16), v, v)
		a.VMOVUPS(v, at(dst, off, d))
	})
}

// halves emits a loop over 32-bit elements on one side and 16-bit ones on the other.
func (a *asm) halves(name, signature, doc string, body func(wide, narrow, off, off2 reg.GPVirtual, disp int)) {
	a.function(name, signature, doc+" n is a multiple of 16.")
	src, dst := a.gp("src"), a.gp("dst")
	off2 := a.GP64()
	a.XORQ(off2, off2)
	wide, narrow := src, dst
	if signature[5] == 'd' {
		wide, narrow = dst, src
	}
	a.blocks(a.gp("n"), func(off reg.GPVirtual, d int) {
		body(wide, narrow, off, off2, d)
		if d+4*a.lanes == 64 {
			a.ADDQ(operand.U8(32), off2)
		}
	})
	a.ret()
}

// lower is the half of a register that 16-bit elements of its lanes take.
func (a *asm) lower(v reg.VecVirtual) reg.VecVirtual {
	if a.lanes == 16 {
		return v.AsY().(reg.VecVirtual)
	}
	return v.AsX().(reg.VecVirtual)
}

func (a *asm) storeHalf(v reg.VecVirtual, m operand.Mem) { a.VMOVDQU(a.lower(v), m) }

// roundBF16 leaves the bfloat16 of each lane in its low 16 bits: ties to even,
// NaN quiet with its payload's upper bits.
func (a *asm) roundBF16(v reg.VecVirtual) {
	top, odd, bias := a.vec(), a.vec(), a.vec()
	a.VPSRLD(operand.U8(16), v, top)
	one := a.vec()
	a.ones(one)
	a.VPSLLD(operand.U8(15), v, odd) // bit 16 becomes the sign
	a.VPSRLD(operand.U8(31), odd, odd)
	a.VPSLLD(operand.U8(15), one, bias)
	a.VPSUBD(one, bias, bias) // 0x7fff
	a.VPADDD(odd, bias, bias)
	a.VPSLLD(operand.U8(6), one, one) // the quiet bit
	if a.lanes == 16 {
		k := a.K()
		a.VCMPPS(operand.U8(isNaN), v, v, k)
		a.VPADDD(bias, v, v)
		a.VPSRLD(operand.U8(16), v, v)
		a.VPORD(one, top, k, v)
		return
	}
	k := a.vec()
	a.VCMPPS(operand.U8(isNaN), v, v, k)
	a.VPADDD(bias, v, v)
	a.VPSRLD(operand.U8(16), v, v)
	a.VPOR(one, top, top)
	a.VBLENDVPS(k, top, v, v)
}

// packWords moves the low 16 bits of each lane together.
func (a *asm) packWords(v reg.VecVirtual) {
	if a.lanes == 16 {
		a.VPMOVDW(v, a.lower(v))
		return
	}
	a.VPACKUSDW(v, v, v)
	a.VPERMQ(operand.U8(0b00001000), v, v)
}
