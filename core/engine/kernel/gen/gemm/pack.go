package gemm

import (
	"math/bits"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/trainctl/trainctl/core/engine/kernel/gen/isa"
)

// pack copies matrices to panels. The kernels write whole vectors: what lies beyond a
// panel's width is overwritten by its next row.
var pack = isa.All(packAcross, packAlong, packPair, packVectors, fetchRows)

// packVectors reads whole rows, as memory likes it, and prefetches what is packed later.
func packVectors(a *isa.Asm) {
	a.Kernel("packVectors", "func(k, vectors int, src *float32, stride, ahead int, dst *float32, next int)",
		"copies k rows of vectors to panels of one vector each, which begin next bytes apart. stride, between rows of src, and ahead, to what is prefetched, are bytes.")
	k, src, stride, dst, next := a.Gp("k"), a.Gp("src"), a.Gp("stride"), a.Gp("dst"), a.Gp("next")
	from, to, ahead, x := a.GP64(), a.GP64(), a.Gp("ahead"), a.Vec()
	a.Label("row")
	left := a.Gp("vectors")
	a.MOVQ(src, from)
	a.MOVQ(dst, to)
	a.Label("vector")
	a.PREFETCHT2(isa.Offset(from, ahead, 0))
	a.Move(operand.Mem{Base: from}, x)
	a.Move(x, operand.Mem{Base: to})
	a.Advance(operand.U8(4*a.Lanes), from)
	a.ADDQ(next, to)
	a.CountDown(left, "vector")
	a.ADDQ(stride, src)
	a.Advance(operand.U8(4*a.Lanes), dst)
	a.CountDown(k, "row")
	a.Ret()
}

// fetchRows asks for what is read later. It goes to the L2 cache, which waits for more lines at a time than the L1 cache.
func fetchRows(a *isa.Asm) {
	a.Kernel("fetchRows", "func(rows, lines int, src *float32, ahead, stride int)",
		"prefetches so many lines of 64 bytes of each row, ahead bytes behind src. stride is bytes.")
	rows, src, ahead, stride, p := a.Gp("rows"), a.Gp("src"), a.Gp("ahead"), a.Gp("stride"), a.GP64()
	a.ADDQ(ahead, src)
	a.Label("row")
	left := a.Gp("lines")
	a.MOVQ(src, p)
	a.Label("line")
	a.PREFETCHT2(operand.Mem{Base: p})
	a.ADDQ(operand.I32(64), p)
	a.CountDown(left, "line")
	a.ADDQ(stride, src)
	a.CountDown(rows, "row")
	a.Ret()
}

// panelRows is how far ahead of the rows that it transposes packing prefetches.
const panelRows = 16

// packAcross transposes whole squares, of which the last begins so that it ends with the row: some processors take ten cycles
// for a masked load. Only rows shorter than a vector need masks.
func packAcross(a *isa.Asm) {
	a.Kernel("packAcross", "func(rows int, src *float32, stride, k int, tail uintptr, dst *float32, step int)",
		"transposes up to a vector of rows of k elements, in square blocks; tail is what counts of fewer elements than a vector has, of which one less than a vector too many may be written. stride and step are bytes.")
	rows, src, stride, k, dst, step := a.Gp("rows"), a.Gp("src"), a.Gp("stride"), a.Gp("k"), a.Gp("dst"), a.Gp("step")
	p, left, by, none, ahead := a.GP64(), a.GP64(), a.GP64(), a.GP64(), a.GP64()
	a.XORQ(none, none)
	a.MOVQ(stride, ahead) // the same rows of the next panel: short rows leave the hardware no stream to follow
	a.SHLQ(operand.U8(bits.Len(panelRows-1)), ahead)
	row := func(i int) operand.Mem {
		if i == 0 {
			a.MOVQ(src, p)
			a.MOVQ(rows, left)
			a.MOVQ(stride, by)
		} else {
			a.DECQ(left)
			a.CMOVQEQ(none, by) // the last row stands for those that are not there
			a.ADDQ(by, p)
		}
		a.PREFETCHT2(isa.Offset(p, ahead, 0))
		return operand.Mem{Base: p}
	}
	write := func(columns []reg.VecVirtual) {
		for _, x := range columns {
			a.Move(x, operand.Mem{Base: dst})
			a.ADDQ(step, dst)
		}
	}
	a.CMPQ(k, operand.U8(a.Lanes))
	a.JL(operand.LabelRef("few"))
	a.Label("square")
	write(a.LoadTransposed(row))
	a.ADDQ(operand.U8(4*a.Lanes), src)
	a.SUBQ(operand.U8(a.Lanes), k)
	a.JZ(operand.LabelRef("done"))
	a.CMPQ(k, operand.U8(a.Lanes))
	a.JGE(operand.LabelRef("square"))
	a.SUBQ(operand.U8(a.Lanes), k) // back by what the last square has in common with the one before
	a.LEAQ(operand.Mem{Base: src, Index: k, Scale: 4}, src)
	a.IMULQ(step, k)
	a.ADDQ(k, dst)
	a.MOVQ(operand.U32(uint32(a.Lanes)), k)
	a.JMP(operand.LabelRef("square"))

	a.Label("few")
	tail, v := a.MaskOf("tail"), a.Vecs(a.Lanes)
	for i := range v {
		a.LoadLanes(row(i), tail, v[i])
	}
	write(a.Transpose(v))
	a.Label("done")
	a.Ret()
}

// eightRows is how many packEight transposes.
const eightRows = 8

// packEight is packAcross for panels of eight rows, of which a vector of sixteen lanes holds two columns: it takes squares of eight columns, the last of which
// begins so that it ends with the row. Vectors of eight lanes take such squares anyway.
func packEight(a *isa.Asm) {
	if a.ISA != isa.AVX512 {
		return
	}
	a.Kernel("packEight", "func(src *float32, stride, k int, dst *float32)",
		"transposes eight rows of k elements, at least eight, to columns behind each other. stride is bytes.")
	src, stride, k, dst := a.Gp("src"), a.Gp("stride"), a.Gp("k"), a.Gp("dst")
	three, lower := a.GP64(), a.GP64()
	a.LEAQ(operand.Mem{Base: stride, Index: stride, Scale: 2}, three)
	a.LEAQ(operand.Mem{Base: src, Index: stride, Scale: 4}, lower)
	row := func(p reg.GPVirtual, i int) operand.Mem {
		return []operand.Mem{{Base: p}, {Base: p, Index: stride, Scale: 1}, {Base: p, Index: stride, Scale: 2}, {Base: p, Index: three, Scale: 1}}[i]
	}
	a.Label("square")
	rows, pairs, fours := a.Vecs(eightRows/2), a.Vecs(eightRows/2), a.Vecs(eightRows/2)
	for i, v := range rows { // two rows, four apart
		a.VMOVUPS(row(src, i), v.AsY())
		a.VINSERTF64X4(operand.U8(1), row(lower, i), v, v)
	}
	for i := range 2 {
		a.VUNPCKLPS(rows[2*i+1], rows[2*i], pairs[2*i])
		a.VUNPCKHPS(rows[2*i+1], rows[2*i], pairs[2*i+1])
	}
	for i := range 2 { // in each quarter four rows of a column: of one of the first four, and of that four columns on
		a.VUNPCKLPD(pairs[i+2], pairs[i], fours[2*i])
		a.VUNPCKHPD(pairs[i+2], pairs[i], fours[2*i+1])
	}
	const evens, odds = 0b10001000, 0b11011101 // quarters of both
	for half, quarters := range []uint8{evens, odds} {
		for i := range 2 {
			v := a.Vec()
			a.VSHUFF64X2(operand.U8(quarters), fours[2*i+1], fours[2*i], v)
			a.Move(v, operand.Mem{Base: dst, Disp: 4 * eightRows * (4*half + 2*i)})
		}
	}
	for _, p := range []reg.GPVirtual{src, lower} {
		a.ADDQ(operand.U8(4*eightRows), p)
	}
	a.ADDQ(operand.U32(4*eightRows*eightRows), dst)
	a.SUBQ(operand.U8(eightRows), k)
	a.JZ(operand.LabelRef("done"))
	a.CMPQ(k, operand.U8(eightRows))
	a.JGE(operand.LabelRef("square"))
	a.SUBQ(operand.U8(eightRows), k) // back by what the last square has in common with the one before
	for _, p := range []reg.GPVirtual{src, lower} {
		a.LEAQ(operand.Mem{Base: p, Index: k, Scale: 4}, p)
	}
	a.SHLQ(operand.U8(5), k) // 4*eightRows
	a.ADDQ(k, dst)
	a.MOVQ(operand.U32(eightRows), k)
	a.JMP(operand.LabelRef("square"))
	a.Label("done")
	a.Ret()
}

// packAlong has a loop for whole vectors, which some processors load ten times as fast without a mask.
func packAlong(a *isa.Asm) {
	a.Kernel("packAlong", "func(k int, src *float32, stride int, mask uintptr, dst *float32, step int)",
		"copies the lanes of mask from k rows. stride and step are bytes.")
	n, from, by, to, step, x := a.Gp("k"), a.Gp("src"), a.Gp("stride"), a.Gp("dst"), a.Gp("step"), a.Vec()
	each := func(label string, load func(m operand.Mem)) {
		a.Label(label)
		load(operand.Mem{Base: from})
		a.Move(x, operand.Mem{Base: to})
		a.ADDQ(by, from)
		a.ADDQ(step, to)
		a.CountDown(n, label)
		a.Ret()
	}
	if a.Lanes < 16 {
		a.CMPL(operand.Mem{Base: a.Gp("mask"), Disp: 4 * (a.Lanes - 1)}, operand.U8(0))
		a.JE(operand.LabelRef("some"))
		each("whole", func(m operand.Mem) { a.Move(m, x) })
	}
	a.Label("some")
	mask := a.MaskOf("mask")
	each("row", func(m operand.Mem) { a.LoadLanes(m, mask, x) })
}

// packPair reads whole lines of the cache, and prefetches the panel beside it: its rows may lie a multiple of a page
// apart, where the hardware finds no stream.
func packPair(a *isa.Asm) {
	a.Kernel("packPair", "func(k int, src *float32, stride int, dst *float32)",
		"copies two vectors from each of k rows to a panel. stride is bytes.")
	k, from, stride, to, v := a.Gp("k"), a.Gp("src"), a.Gp("stride"), a.Gp("dst"), a.Vecs(2)
	wide := 4 * a.Lanes * len(v)
	a.Label("row")
	loadVectors(a, from, 0, v)
	for d := 0; d < wide; d += 64 {
		a.PREFETCHT2(operand.Mem{Base: from, Disp: wide + d})
	}
	for i := range v {
		a.Move(v[i], operand.Mem{Base: to, Disp: 4 * a.Lanes * i})
	}
	a.ADDQ(stride, from)
	a.ADDQ(operand.I32(wide), to)
	a.CountDown(k, "row")
	a.Ret()
}
