package conv

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/trainctl/trainctl/core/engine/kernel/gen/isa"
)

// bf16Picks emits copies of every second bfloat16 of rows, and the way back.
func bf16Picks(a *isa.Asm) {
	pairRows(a, "pickHalves", "copies the first of each of pairs pairs of rows. srcRow and dstRow are bytes.", 64, 32, func(k reg.Register, src, dst operand.Mem, v reg.VecVirtual) {
		a.VMOVDQU32_Z(src, k, v)
		a.VPMOVDW(v, k, dst)
	})
	pairRows(a, "putHalves", "writes pairs elements of rows as the first of pairs, whose second are zeros. srcRow and dstRow are bytes.", 32, 64, func(k reg.Register, src, dst operand.Mem, v reg.VecVirtual) {
		a.VPMOVZXWD_Z(src, k, v)
		a.VMOVDQU32(v, k, dst)
	})
}

// pairRows calls step for every 16 pairs of rows.
func pairRows(a *isa.Asm, name, doc string, srcStep, dstStep uint8, step func(k reg.Register, src, dst operand.Mem, v reg.VecVirtual)) {
	a.Kernel(name, "func(rows, pairs int, src *uint16, srcRow int, dst *uint16, dstRow int)", doc)
	rows, src, srcRow, dst, dstRow := a.Gp("rows"), a.Gp("src"), a.Gp("srcRow"), a.Gp("dst"), a.Gp("dstRow")
	pairs, from, to, bits, v, k := a.GP64(), a.GP64(), a.GP64(), a.GP64(), a.Vec(), a.K()
	a.Label("row")
	a.MOVQ(src, from)
	a.MOVQ(dst, to)
	a.Load(a.Param("pairs"), pairs)
	a.MOVQ(operand.U32(0xffff), bits)
	a.KMOVW(bits.As32(), k)
	a.Label("vector")
	a.CMPQ(pairs, operand.U8(16))
	a.JGE(operand.LabelRef("copy"))
	a.PowerOfTwo(pairs, bits)
	a.DECQ(bits)
	a.KMOVW(bits.As32(), k)
	a.Label("copy")
	step(k, operand.Mem{Base: from}, operand.Mem{Base: to}, v)
	a.ADDQ(operand.U8(srcStep), from)
	a.ADDQ(operand.U8(dstStep), to)
	a.SUBQ(operand.U8(16), pairs)
	a.JG(operand.LabelRef("vector"))
	a.ADDQ(srcRow, src)
	a.ADDQ(dstRow, dst)
	a.CountDown(rows, "row")
	a.Ret()
}
