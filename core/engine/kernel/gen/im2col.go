package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// im2col emits the copies of convolution by im2col.
func im2col(a *asm) {
	copyRuns(a)
	if a.lanes < 16 {
		return
	}
	a.everySecond("spreadPairs", "writes n floats to every second place of dst.", func(src, dst operand.Mem, n, pairs reg.Register, full reg.Register, v reg.VecVirtual) {
		a.VMOVUPS_Z(src, n, v)
		a.VEXPANDPS_Z(v, full, v)
		a.VMOVUPS(v, pairs, dst)
	}, 32, 64)
	a.everySecond("pickPairs", "reads n floats from every second place of src.", func(src, dst operand.Mem, n, pairs reg.Register, full reg.Register, v reg.VecVirtual) {
		a.VMOVUPS_Z(src, pairs, v)
		a.VCOMPRESSPS_Z(v, full, v)
		a.VMOVUPS(v, n, dst)
	}, 64, 32)
}

// copyRuns copies rows that lie step apart to places that lie width apart, whole
// vectors at a time; what a row writes too much is overwritten by the next.
func copyRuns(a *asm) {
	a.function("copyRuns", "func(rows, vectors int, src *float32, step int, dst *float32, width int)",
		"copies rows of vectors. step and width are bytes.")
	rows, vectors, src, step, dst, width := a.gp("rows"), a.gp("vectors"), a.gp("src"), a.gp("step"), a.gp("dst"), a.gp("width")
	from, to, left, v := a.GP64(), a.GP64(), a.GP64(), a.vecs(16/a.lanes)
	a.Label("row")
	a.MOVQ(src, from)
	a.MOVQ(dst, to)
	a.MOVQ(vectors, left)
	a.Label("vector")
	for i := range v {
		a.move(operand.Mem{Base: from, Disp: i * a.size()}, v[i])
		a.move(v[i], operand.Mem{Base: to, Disp: i * a.size()})
	}
	a.ADDQ(operand.U8(64), from)
	a.ADDQ(operand.U8(64), to)
	a.countDown(left, "vector")
	a.ADDQ(step, src)
	a.ADDQ(width, dst)
	a.countDown(rows, "row")
	a.ret()
}

// everySecond emits a loop over 8 floats of one side and 16 places of the other.
// body gets the masks of the floats that are left, of their places, and of all even places.
func (a *asm) everySecond(name, doc string, body func(src, dst operand.Mem, n, pairs, full reg.Register, v reg.VecVirtual), srcStep, dstStep uint8) {
	a.function(name, "func(n int, src, dst *float32)", doc)
	n, src, dst, bits, even := a.gp("n"), a.gp("src"), a.gp("dst"), a.GP64(), a.GP64()
	lanes, pairs, full, v := a.K(), a.K(), a.K(), a.vec()
	a.MOVQ(operand.U32(0x5555), even)
	a.KMOVW(even.As32(), full)
	a.KMOVW(even.As32(), pairs)
	a.MOVQ(operand.U32(0xff), bits)
	a.KMOVW(bits.As32(), lanes)
	a.Label("loop")
	a.CMPQ(n, operand.U8(8))
	a.JGE(operand.LabelRef("move"))
	a.powerOfTwo(n, bits)
	a.MOVQ(bits, even)
	a.DECQ(bits)
	a.KMOVW(bits.As32(), lanes)
	a.SHLQ(reg.CL, even)
	a.DECQ(even)
	a.ANDQ(operand.U32(0x5555), even)
	a.KMOVW(even.As32(), pairs)
	a.Label("move")
	body(operand.Mem{Base: src}, operand.Mem{Base: dst}, lanes, pairs, full, v)
	a.ADDQ(operand.U8(srcStep), src)
	a.ADDQ(operand.U8(dstStep), dst)
	a.SUBQ(operand.U8(8), n)
	a.JG(operand.LabelRef("loop"))
	a.ret()
}
