package conv

import (
	"fmt"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/trainctl/trainctl/core/engine/kernel/gen/isa"
)

// This file is the copies between planes and vectors of 16 channels where a register
// holds 8 lanes: each square of 16 pixels by 16 channels is four of 8 by 8, and the
// right two are left out where a row has at most 8 pixels.

const half = 8

// eightRows addresses 8 rows from a base.
func eightRows(a *isa.Asm, distance reg.GPVirtual) strides {
	s := strides{distance}
	for i := 1; i < half/2; i++ {
		s[i] = a.GP64()
		a.LEAQ(operand.Mem{Base: s[i-1], Index: distance, Scale: 2}, s[i])
	}
	return s
}

// eachSquare calls body for each square of 8 by 8 of a row: those of channels 8·part and
// after, and of pixels 8·group and after. The mask at pixels says which of these count.
func eachSquare(a *isa.Asm, pixels reg.GPVirtual, body func(part, group int)) {
	for group := range 2 {
		if group == 1 {
			a.CMPL(operand.Mem{Base: pixels, Disp: 4 * half}, operand.U8(0))
			a.JE(operand.LabelRef("next"))
		}
		for part := range 2 {
			body(part, group)
		}
	}
	a.Label("next")
}

// fromPlanesByEight is fromPlanes.
func fromPlanesByEight(a *isa.Asm, load func(p operand.Mem, mask, v reg.VecVirtual)) {
	rows, src, plane, width, mask, dst, stride, ahead := a.Gp("rows"), a.Gp("src"), a.Gp("plane"), a.Gp("width"), a.Gp("mask"), a.Gp("dst"), a.Gp("stride"), a.Gp("ahead")
	at, p, next := eightRows(a, plane), a.GP64(), a.GP64()
	masks := a.Vecs(2)
	for i, m := range masks {
		a.Move(operand.Mem{Base: mask, Disp: i * vectorBytes(a)}, m)
	}
	a.Label("row")
	eachSquare(a, mask, func(part, group int) {
		partOf(a, src, plane, part, p)
		a.LEAQ(operand.Mem{Base: p, Index: ahead, Scale: 1}, next)
		v := a.Vecs(half)
		for i := range v {
			if group == 0 {
				a.PREFETCHT1(at.at(next, i))
			}
			load(at.at(p, i).Offset(group*vectorBytes(a)), masks[group], v[i])
		}
		for i, x := range a.Transpose(v) {
			a.Move(x, operand.Mem{Base: dst, Disp: (group*half+i)*lanesBytes + part*vectorBytes(a)})
		}
	})
	a.ADDQ(width, src)
	a.ADDQ(stride, dst)
	a.CountDown(rows, "row")
	a.Ret()
}

// partOf leads to the first plane of a part of 16 channels.
func partOf(a *isa.Asm, base, plane reg.GPVirtual, part int, p reg.GPVirtual) {
	if part == 0 {
		a.MOVQ(base, p)
	} else {
		a.LEAQ(operand.Mem{Base: base, Index: plane, Scale: half}, p)
	}
}

// toPlanesByEight is toPlanes. load reads a vector of channels of a part, and store
// writes the pixels of a row that lie in the first n lanes of a register: 8, 4, 2 or 1.
func toPlanesByEight(a *isa.Asm, load func(m operand.Mem, part int, v reg.VecVirtual), store func(v reg.VecVirtual, n int, m operand.Mem), size int) {
	rows, src, stride, dst, plane, width, mask := a.Gp("rows"), a.Gp("src"), a.Gp("stride"), a.Gp("dst"), a.Gp("plane"), a.Gp("width"), a.Gp("mask")
	at, p, next := eightRows(a, plane), a.GP64(), a.GP64()
	a.Label("row")
	eachSquare(a, mask, func(part, group int) {
		v := a.Vecs(half)
		for i := range v {
			load(operand.Mem{Base: src, Disp: (group*half+i)*lanesBytes + part*vectorBytes(a)}, part, v[i])
		}
		partOf(a, dst, plane, part, p)
		v = a.Transpose(v)
		if group == 0 {
			a.MOVQ(plane, next)
			a.SHLQ(operand.U8(4), next)
			a.ADDQ(p, next)
			for i := range v {
				a.PREFETCHT1(at.at(next, i))
			}
		} else {
			a.ADDQ(operand.U8(half*size), p)
		}
		storeRows(a, v, mask, group, fmt.Sprintf("%d%d", part, group), p, at, store, size)
	})
	a.ADDQ(stride, src)
	a.ADDQ(width, dst)
	a.CountDown(rows, "row")
	a.Ret()
}

// storeRows stores whole registers, or as many pixels as the mask of the group says in
// pieces of 4, 2 and 1: some processors take 12 cycles for a masked store.
func storeRows(a *isa.Asm, v []reg.VecVirtual, mask reg.GPVirtual, group int, label string, p reg.GPVirtual, at strides, store func(v reg.VecVirtual, n int, m operand.Mem), size int) {
	count, lanes := a.GP64(), a.Vec()
	a.CMPL(operand.Mem{Base: mask, Disp: group*vectorBytes(a) + 4*(half-1)}, operand.U8(0))
	a.JE(operand.LabelRef("pieces" + label))
	for i, x := range v {
		store(x, half, at.at(p, i))
	}
	a.JMP(operand.LabelRef("stored" + label))
	a.Label("pieces" + label)
	a.Move(operand.Mem{Base: mask, Disp: group * vectorBytes(a)}, lanes)
	a.VMOVMSKPS(lanes, count.As32())
	a.POPCNTL(count.As32(), count.As32())
	for n := half / 2; n > 0; n /= 2 {
		a.TESTQ(operand.U32(n), count)
		a.JZ(operand.LabelRef(fmt.Sprintf("without%d%s", n, label)))
		for i, x := range v {
			store(x, n, at.at(p, i))
			if n > 1 {
				a.NextPiece(x, n)
			}
		}
		a.ADDQ(operand.U8(n*size), p)
		a.Label(fmt.Sprintf("without%d%s", n, label))
	}
	a.Label("stored" + label)
}

// addPiece adds memory to the first n lanes of v, and writes them.
func addPiece(a *isa.Asm, v reg.VecVirtual, n int, m operand.Mem) {
	old := a.Vec()
	switch n {
	case 8:
		a.Move(m, old)
	case 4:
		a.Move(m, old.AsX())
	case 2:
		a.VMOVSD(m, old.AsX())
	case 1:
		a.VMOVSS(m, old.AsX())
	}
	a.Add(old, v, v)
	a.StorePiece(v, n, m)
}
