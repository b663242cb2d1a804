package amx

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/trainctl/trainctl/core/engine/kernel/gen/isa"
)

// rows emits the copies between images and the frames and sums of products.
func rows(k *isa.Asm) {
	roundRows(k)
	roundPairs(k)
	splitPairs(k)
	splitWords(k)
}

// roundRows emits what images are written with: their rows lie apart in the sums.
func roundRows(k *isa.Asm) {
	k.Kernel("roundRows", "func(rows, n int, x *float32, xRow int, bias float32, y *uint16, yRow int)",
		"rounds n sums of each row, plus bias, to bfloat16. xRow and yRow are bytes.")
	x, y, v := k.Gp("x"), k.Gp("y"), k.Vec()
	xRow, yRow, bias := k.Gp("xRow"), k.Gp("yRow"), k.Splat("bias")
	eachVector(k, 16, []reg.GPVirtual{x, y}, []reg.GPVirtual{xRow, yRow}, []uint8{64, 32}, k.KMOVW, func(p []reg.GPVirtual, mask reg.Register) {
		k.VADDPS(operand.Mem{Base: p[0]}, bias, v)
		k.RoundPairs(v, v)
		k.VMOVDQU16(k.Lower(v), mask, operand.Mem{Base: p[1]})
	})
}

// roundPairs emits roundRows for the two columns of a stride.
func roundPairs(k *isa.Asm) {
	k.Kernel("roundPairs", "func(rows, n int, left, right *float32, xRow int, y *uint16, yRow int)",
		"rounds n sums of each row to bfloat16, in turn from left and from right. xRow and yRow are bytes.")
	left, right, y := k.Gp("left"), k.Gp("right"), k.Gp("y")
	xRow, yRow, a, b := k.Gp("xRow"), k.Gp("yRow"), k.Vec(), k.Vec()
	eachVector(k, 32, []reg.GPVirtual{left, right, y}, []reg.GPVirtual{xRow, xRow, yRow}, []uint8{64, 64, 64}, k.KMOVD, func(p []reg.GPVirtual, mask reg.Register) {
		for i, v := range []reg.VecVirtual{a, b} {
			k.VMOVUPS(operand.Mem{Base: p[i]}, v)
			k.RoundPairs(v, v)
			k.VPMOVZXWD(k.Lower(v), v)
		}
		k.VPSLLD(operand.U8(16), b, b)
		k.VPORD(a, b, b)
		k.VMOVDQU16(b, mask, operand.Mem{Base: p[2]})
	})
}

// eachVector runs body for every so many of n elements of each row, with the mask of those that are there. Pointers move by steps from
// vector to vector, and by strides from row to row.
func eachVector(k *isa.Asm, lanes uint8, pointers, strides []reg.GPVirtual, steps []uint8, load func(bits, mask operand.Op), body func(p []reg.GPVirtual, mask reg.Register)) {
	count, left, bits, mask := k.Gp("rows"), k.GP64(), k.GP64(), k.K()
	var at []reg.GPVirtual
	for range pointers {
		at = append(at, k.GP64())
	}
	k.Label("row")
	for i, p := range pointers {
		k.MOVQ(p, at[i])
	}
	k.Load(k.Param("n"), left)
	k.Label("vector")
	k.MOVQ(operand.I32(-1), bits)
	k.CMPQ(left, operand.U8(lanes))
	k.JGE(operand.LabelRef("whole"))
	k.PowerOfTwo(left, bits)
	k.DECQ(bits)
	k.Label("whole")
	load(bits.As32(), mask)
	body(at, mask)
	for i, p := range at {
		k.ADDQ(operand.U8(steps[i]), p)
	}
	k.SUBQ(operand.U8(lanes), left)
	k.JG(operand.LabelRef("vector"))
	for i, p := range pointers {
		k.ADDQ(strides[i], p)
	}
	k.CountDown(count, "row")
	k.Ret()
}

// splitPairs emits what fills frames of pairs for a stride of two columns.
func splitPairs(k *isa.Asm) {
	k.Kernel("splitPairs", "func(rows int, even, odd *uint16, stride int, mask uintptr, left, right *float32, step int)",
		"makes pairs of the elements of even and odd rows: of those with even numbers to left, and of the others to right. mask is of 32 elements; stride and step are bytes.")
	n, even, odd, stride, left, right, step := k.Gp("rows"), k.Gp("even"), k.Gp("odd"), k.Gp("stride"), k.Gp("left"), k.Gp("right"), k.Gp("step")
	mask, x, y, v, low, high := k.K(), k.Vec(), k.Vec(), k.Vec(), k.Vec(), k.HighHalves()
	k.KMOVD(k.Gp("mask").As32(), mask)
	k.Label("row")
	k.VMOVDQU16_Z(operand.Mem{Base: even}, mask, x)
	k.VMOVDQU16_Z(operand.Mem{Base: odd}, mask, y)
	k.VPSLLD(operand.U8(16), y, v)
	k.VPANDND(x, high, low)
	k.VPORD(low, v, v)
	k.VMOVUPS(v, operand.Mem{Base: left})
	k.VPSRLD(operand.U8(16), x, x)
	k.VPANDD(y, high, y)
	k.VPORD(x, y, y)
	k.VMOVUPS(y, operand.Mem{Base: right})
	k.Advance(stride, even, odd)
	k.Advance(step, left, right)
	k.CountDown(n, "row")
	k.Ret()
}

// splitWords emits the same for single planes.
func splitWords(k *isa.Asm) {
	k.Kernel("splitWords", "func(rows int, src *uint16, stride int, mask uintptr, left, right *uint16, step int)",
		"copies the elements of rows with even numbers to left, and the others to right. mask is of 32 elements; stride and step are bytes.")
	n, src, stride, left, right, step := k.Gp("rows"), k.Gp("src"), k.Gp("stride"), k.Gp("left"), k.Gp("right"), k.Gp("step")
	mask, v := k.K(), k.Vec()
	k.KMOVD(k.Gp("mask").As32(), mask)
	k.Label("row")
	k.VMOVDQU16_Z(operand.Mem{Base: src}, mask, v)
	k.VPMOVDW(v, operand.Mem{Base: left})
	k.VPSRLD(operand.U8(16), v, v)
	k.VPMOVDW(v, operand.Mem{Base: right})
	k.ADDQ(stride, src)
	k.Advance(step, left, right)
	k.CountDown(n, "row")
	k.Ret()
}
