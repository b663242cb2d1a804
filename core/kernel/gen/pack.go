package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// pack emits the copies of matrices to panels. Both write whole vectors: what
// lies beyond a panel's width is overwritten by its next row.
func pack(a *asm) {
	if a.lanes != 16 {
		return
	}
	a.function("packAcross", "func(rows int, src *float32, stride, k int, dst *float32, step int)",
		"transposes up to 16 rows of k elements, in blocks of 16; a last block may write 15 rows too many. stride and step are bytes.")
	rows, src, stride, k, dst, step := a.gp("rows"), a.gp("src"), a.gp("stride"), a.gp("k"), a.gp("dst"), a.gp("step")
	mask, full, p, left, by, none := a.K(), a.GP64(), a.GP64(), a.GP64(), a.GP64(), a.GP64()
	a.XORQ(none, none)
	a.MOVQ(operand.U32(0xffff), full)
	a.KMOVW(full.As32(), mask)
	a.Label("block")
	a.CMPQ(k, operand.U8(16))
	a.JGE(operand.LabelRef("load"))
	bits := a.GP64()
	a.MOVQ(operand.U32(1), bits)
	a.MOVQ(k, reg.RCX)
	a.SHLQ(reg.CL, bits)
	a.DECQ(bits)
	a.KMOVW(bits.As32(), mask)
	a.Label("load")
	a.MOVQ(src, p)
	a.MOVQ(rows, left)
	a.MOVQ(stride, by)
	v := a.vecs(16)
	for i := range v {
		a.VMOVUPS_Z(operand.Mem{Base: p}, mask, v[i])
		if i < 15 {
			a.DECQ(left)
			a.CMOVQEQ(none, by) // the last row stands for those that are not there
			a.ADDQ(by, p)
		}
	}
	for _, x := range a.transpose(v) {
		a.VMOVUPS(x, operand.Mem{Base: dst})
		a.ADDQ(step, dst)
	}
	a.ADDQ(operand.U8(64), src)
	a.SUBQ(operand.U8(16), k)
	a.JG(operand.LabelRef("block"))
	a.ret()

	a.function("packAlong", "func(k int, src *float32, stride int, mask uintptr, dst *float32, step int)",
		"copies the lanes of mask from k rows. stride and step are bytes.")
	n, from, by2, to, step2, lanes, x := a.gp("k"), a.gp("src"), a.gp("stride"), a.gp("dst"), a.gp("step"), a.K(), a.vec()
	a.KMOVW(a.gp("mask").As32(), lanes)
	a.Label("row")
	a.VMOVUPS_Z(operand.Mem{Base: from}, lanes, x)
	a.VMOVUPS(x, operand.Mem{Base: to})
	a.ADDQ(by2, from)
	a.ADDQ(step2, to)
	a.DECQ(n)
	a.JNZ(operand.LabelRef("row"))
	a.ret()
}
