package conv

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/trainctl/trainctl/core/engine/kernel/gen/isa"
)

// im2col emits the copies of convolution by im2col.
func im2col(a *isa.Asm) {
	copyRuns(a)
	if a.Lanes < 16 {
		return
	}
	everySecond(a, "spreadPairs", "writes n floats to every second place of dst.", func(src, dst operand.Mem, n, pairs reg.Register, full reg.Register, v reg.VecVirtual) {
		a.VMOVUPS_Z(src, n, v)
		a.VEXPANDPS_Z(v, full, v)
		a.VMOVUPS(v, pairs, dst)
	}, 32, 64)
	everySecond(a, "pickPairs", "reads n floats from every second place of src.", func(src, dst operand.Mem, n, pairs reg.Register, full reg.Register, v reg.VecVirtual) {
		a.VMOVUPS_Z(src, pairs, v)
		a.VCOMPRESSPS_Z(v, full, v)
		a.VMOVUPS(v, n, dst)
	}, 64, 32)
}

// copyRuns copies rows that lie step apart to places that lie width apart, whole
// vectors at a time; what a row writes too much is overwritten by the next.
func copyRuns(a *isa.Asm) {
	a.Kernel("copyRuns", "func(rows, vectors int, src *float32, step int, dst *float32, width int)",
		"copies rows of vectors. step and width are bytes.")
	rows, vectors, src, step, dst, width := a.Gp("rows"), a.Gp("vectors"), a.Gp("src"), a.Gp("step"), a.Gp("dst"), a.Gp("width")
	from, to, left, v := a.GP64(), a.GP64(), a.GP64(), a.Vecs(16/a.Lanes)
	a.Label("row")
	a.MOVQ(src, from)
	a.MOVQ(dst, to)
	a.MOVQ(vectors, left)
	a.Label("vector")
	for i := range v {
		a.Move(operand.Mem{Base: from, Disp: i * vectorBytes(a)}, v[i])
		a.Move(v[i], operand.Mem{Base: to, Disp: i * vectorBytes(a)})
	}
	a.ADDQ(operand.U8(64), from)
	a.ADDQ(operand.U8(64), to)
	a.CountDown(left, "vector")
	a.ADDQ(step, src)
	a.ADDQ(width, dst)
	a.CountDown(rows, "row")
	a.Ret()
}

// everySecond emits a loop over 8 floats of one side and 16 places of the other.
// body gets the masks of the floats that are left, of their places, and of all even places.
func everySecond(a *isa.Asm, name, doc string, body func(src, dst operand.Mem, n, pairs, full reg.Register, v reg.VecVirtual), srcStep, dstStep uint8) {
	a.Kernel(name, "func(n int, src, dst *float32)", doc)
	n, src, dst, bits, even := a.Gp("n"), a.Gp("src"), a.Gp("dst"), a.GP64(), a.GP64()
	lanes, pairs, full, v := a.K(), a.K(), a.K(), a.Vec()
	a.MOVQ(operand.U32(0x5555), even)
	a.KMOVW(even.As32(), full)
	a.KMOVW(even.As32(), pairs)
	a.MOVQ(operand.U32(0xff), bits)
	a.KMOVW(bits.As32(), lanes)
	a.Label("loop")
	a.CMPQ(n, operand.U8(8))
	a.JGE(operand.LabelRef("move"))
	a.PowerOfTwo(n, bits)
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
	a.Ret()
}
