package main

import (
	"github.com/mmcloughlin/avo/operand"
)

// pack copies matrices to panels. Both kernels write whole vectors: what lies beyond a
// panel's width is overwritten by its next row.
var pack = all(packAcross, packAlong)

func packAcross(a *asm) {
	a.function("packAcross", "func(rows int, src *float32, stride, k int, tail uintptr, dst *float32, step int)",
		"transposes up to a vector of rows of k elements, in square blocks; tail is what counts of the last, which may write a vector less one rows too many. stride and step are bytes.")
	rows, src, stride, k, dst, step := a.gp("rows"), a.gp("src"), a.gp("stride"), a.gp("k"), a.gp("dst"), a.gp("step")
	tail, p, left, by, none := a.gp("tail"), a.GP64(), a.GP64(), a.GP64(), a.GP64()
	a.XORQ(none, none)
	load, last := a.maskedLoad(tail)
	a.Label("block")
	a.CMPQ(k, operand.U8(a.lanes))
	a.JG(operand.LabelRef("load"))
	last()
	a.Label("load")
	a.MOVQ(src, p)
	a.MOVQ(rows, left)
	a.MOVQ(stride, by)
	v := a.vecs(a.lanes)
	for i := range v {
		load(operand.Mem{Base: p}, v[i])
		if i < a.lanes-1 {
			a.DECQ(left)
			a.CMOVQEQ(none, by) // the last row stands for those that are not there
			a.ADDQ(by, p)
		}
	}
	for _, x := range a.transpose(v) {
		a.move(x, operand.Mem{Base: dst})
		a.ADDQ(step, dst)
	}
	a.ADDQ(operand.U8(4*a.lanes), src)
	a.SUBQ(operand.U8(a.lanes), k)
	a.JG(operand.LabelRef("block"))
	a.ret()
}

func packAlong(a *asm) {
	a.function("packAlong", "func(k int, src *float32, stride int, mask uintptr, dst *float32, step int)",
		"copies the lanes of mask from k rows. stride and step are bytes.")
	n, from, by, to, step, x := a.gp("k"), a.gp("src"), a.gp("stride"), a.gp("dst"), a.gp("step"), a.vec()
	load, masked := a.maskedLoad(a.gp("mask"))
	masked()
	a.Label("row")
	load(operand.Mem{Base: from}, x)
	a.move(x, operand.Mem{Base: to})
	a.ADDQ(by, from)
	a.ADDQ(step, to)
	a.countDown(n, "row")
	a.ret()
}
