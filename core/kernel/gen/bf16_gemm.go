package main

import (
	"github.com/mmcloughlin/avo/operand"
)

// bf16Gemm emits the micro-kernels of products of bfloat16, the packing of a
// matrix whose sums run down its columns, and the rounding of results.
func bf16Gemm(a *asm) {
	gemm(a)

	a.function("packPairs", "func(pairs int, even, odd *uint16, stride int, mask uintptr, dst *float32, step int)",
		"interleaves the lanes of mask of pairs of rows. stride, between pairs, and step are bytes.")
	n, even, odd, stride, dst, step := a.gp("pairs"), a.gp("even"), a.gp("odd"), a.gp("stride"), a.gp("dst"), a.gp("step")
	k, x, y := a.K(), a.vec(), a.vec()
	a.KMOVW(a.gp("mask").As32(), k)
	a.Label("row")
	a.VPMOVZXWD_Z(operand.Mem{Base: even}, k, x)
	a.VPMOVZXWD_Z(operand.Mem{Base: odd}, k, y)
	a.VPSLLD(operand.U8(16), y, y)
	a.VPORD(x, y, y)
	a.VMOVUPS(y, operand.Mem{Base: dst})
	a.ADDQ(stride, even)
	a.ADDQ(stride, odd)
	a.ADDQ(step, dst)
	a.DECQ(n)
	a.JNZ(operand.LabelRef("row"))
	a.ret()

	a.function("round", "func(src *float32, dst *uint16, n int)", "rounds n float32, subnormal ones to zero.")
	src, to, left := a.gp("src"), a.gp("dst"), a.gp("n")
	v := a.vecs(4)
	a.Label("four")
	a.SUBQ(operand.U8(64), left)
	a.JL(operand.LabelRef("rest"))
	for i := range v {
		a.VMOVUPS(operand.Mem{Base: src, Disp: 64 * i}, v[i])
		a.roundPairs(v[i], v[i])
		a.storeHalf(v[i], operand.Mem{Base: to, Disp: 32 * i})
	}
	a.ADDQ(operand.U32(256), src)
	a.ADDQ(operand.U32(128), to)
	a.JMP(operand.LabelRef("four"))
	a.Label("rest")
	a.ADDQ(operand.U8(64), left)
	a.Label("one")
	a.TESTQ(left, left)
	a.JLE(operand.LabelRef("done"))
	mask := a.firstLanes(left)
	a.VMOVUPS_Z(operand.Mem{Base: src}, mask, v[0])
	a.roundPairs(v[0], v[0])
	a.VMOVDQU16(a.lower(v[0]), mask, operand.Mem{Base: to})
	a.ADDQ(operand.U8(64), src)
	a.ADDQ(operand.U8(32), to)
	a.SUBQ(operand.U8(16), left)
	a.JMP(operand.LabelRef("one"))
	a.Label("done")
	a.ret()
}
