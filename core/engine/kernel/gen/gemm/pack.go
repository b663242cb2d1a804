package gemm

import (
	"math/bits"

	"github.com/mmcloughlin/avo/operand"

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

func packAcross(a *isa.Asm) {
	a.Kernel("packAcross", "func(rows int, src *float32, stride, k int, tail uintptr, dst *float32, step int)",
		"transposes up to a vector of rows of k elements, in square blocks; tail is what counts of the last, which may write a vector less one rows too many. stride and step are bytes.")
	rows, src, stride, k, dst, step := a.Gp("rows"), a.Gp("src"), a.Gp("stride"), a.Gp("k"), a.Gp("dst"), a.Gp("step")
	tail, p, left, by, none, ahead := a.Gp("tail"), a.GP64(), a.GP64(), a.GP64(), a.GP64(), a.GP64()
	a.XORQ(none, none)
	a.MOVQ(stride, ahead) // the same rows of the next panel: short rows leave the hardware no stream to follow
	a.SHLQ(operand.U8(bits.Len(panelRows-1)), ahead)
	load, last := a.MaskedLoad(tail)
	a.Label("block")
	a.CMPQ(k, operand.U8(a.Lanes))
	a.JG(operand.LabelRef("load"))
	last()
	a.Label("load")
	a.MOVQ(src, p)
	a.MOVQ(rows, left)
	a.MOVQ(stride, by)
	v := a.Vecs(a.Lanes)
	for i := range v {
		load(operand.Mem{Base: p}, v[i])
		a.PREFETCHT2(isa.Offset(p, ahead, 0))
		if i < a.Lanes-1 {
			a.DECQ(left)
			a.CMOVQEQ(none, by) // the last row stands for those that are not there
			a.ADDQ(by, p)
		}
	}
	for _, x := range a.Transpose(v) {
		a.Move(x, operand.Mem{Base: dst})
		a.ADDQ(step, dst)
	}
	a.ADDQ(operand.U8(4*a.Lanes), src)
	a.SUBQ(operand.U8(a.Lanes), k)
	a.JG(operand.LabelRef("block"))
	a.Ret()
}

func packAlong(a *isa.Asm) {
	a.Kernel("packAlong", "func(k int, src *float32, stride int, mask uintptr, dst *float32, step int)",
		"copies the lanes of mask from k rows. stride and step are bytes.")
	n, from, by, to, step, x := a.Gp("k"), a.Gp("src"), a.Gp("stride"), a.Gp("dst"), a.Gp("step"), a.Vec()
	load, masked := a.MaskedLoad(a.Gp("mask"))
	masked()
	a.Label("row")
	load(operand.Mem{Base: from}, x)
	a.Move(x, operand.Mem{Base: to})
	a.ADDQ(by, from)
	a.ADDQ(step, to)
	a.CountDown(n, "row")
	a.Ret()
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
