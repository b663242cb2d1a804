package conv

import (
	"fmt"
	"strings"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/trainctl/trainctl/core/engine/kernel/gen/isa"
	"github.com/trainctl/trainctl/core/engine/kernel/gen/pointwise"
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

// fromPlanesByEight is fromPlanes, from elements of so many bytes.
func fromPlanesByEight(a *isa.Asm, size int, load func(p operand.Mem, mask, v reg.VecVirtual)) {
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
			load(at.at(p, i).Offset(group*half*size), masks[group], v[i])
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

// halfPlanes emits both copies for planes of each half type. A load of halves has no mask: it
// reads up to 7 elements beyond a row, which must be there, and clears them.
func halfPlanes(a *isa.Asm) {
	for _, f := range pointwise.FormatsOf(a) {
		a.Kernel(f.Name+"PlanesToLanes", "func(rows int, src *uint16, plane, width int, mask uintptr, dst *float32, stride, ahead int)",
			"gathers 16 planes into vectors of 16 channels, and prefetches what lies ahead. plane, width, stride and ahead are bytes.")
		fromPlanesByEight(a, 2, func(p operand.Mem, mask, v reg.VecVirtual) {
			f.Load(p, v)
			a.And(mask, v, v)
		})
		a.Kernel("lanesTo"+strings.ToUpper(f.Name)+"Planes", "func(rows int, src *float32, stride int, bias *float32, dst *uint16, plane, width int, mask uintptr)",
			"scatters vectors of 16 channels, plus bias, over 16 planes. stride, plane and width are bytes.")
		bias, pack := a.Gp("bias"), f.Prepare()
		toPlanesByEight(a, func(m operand.Mem, part int, v reg.VecVirtual) {
			a.Move(m, v)
			a.Add(operand.Mem{Base: bias, Disp: part * vectorBytes(a)}, v, v)
		}, rowStore{
			whole: func(v reg.VecVirtual, m operand.Mem) {
				pack(v)
				pointwise.StoreHalf(a, v, m)
			},
			first: func(v reg.VecVirtual, n reg.GPVirtual, m operand.Mem) {
				pack(v)
				a.StoreHalves(v, n, m)
			},
			size: 2,
		})
	}
}

// rowStore writes a row of 8 pixels, or the first n, of a plane whose elements have so many
// bytes. piece, if there is no first, writes 4, 2 or 1 pixels.
type rowStore struct {
	whole func(v reg.VecVirtual, m operand.Mem)
	first func(v reg.VecVirtual, n reg.GPVirtual, m operand.Mem)
	piece func(v reg.VecVirtual, n int, m operand.Mem)
	size  int
}

// inPieces is a rowStore of float32.
func inPieces(store func(v reg.VecVirtual, n int, m operand.Mem)) rowStore {
	return rowStore{whole: func(v reg.VecVirtual, m operand.Mem) { store(v, half, m) }, piece: store, size: 4}
}

// toPlanesByEight is toPlanes. load reads a vector of channels of a part.
func toPlanesByEight(a *isa.Asm, load func(m operand.Mem, part int, v reg.VecVirtual), store rowStore) {
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
			a.ADDQ(operand.U8(half*store.size), p)
		}
		storeRows(a, v, mask, group, fmt.Sprintf("%d%d", part, group), p, at, store)
	})
	a.ADDQ(stride, src)
	a.ADDQ(width, dst)
	a.CountDown(rows, "row")
	a.Ret()
}

// storeRows stores whole registers, or as many pixels as the mask of the group says in
// pieces of 4, 2 and 1: some processors take 12 cycles for a masked store.
func storeRows(a *isa.Asm, v []reg.VecVirtual, mask reg.GPVirtual, group int, label string, p reg.GPVirtual, at strides, store rowStore) {
	a.CMPL(operand.Mem{Base: mask, Disp: group*vectorBytes(a) + 4*(half-1)}, operand.U8(0))
	a.JE(operand.LabelRef("pieces" + label))
	for i, x := range v {
		store.whole(x, at.at(p, i))
	}
	a.JMP(operand.LabelRef("stored" + label))
	a.Label("pieces" + label)
	lanes := a.Vec()
	a.Move(operand.Mem{Base: mask, Disp: group * vectorBytes(a)}, lanes)
	count := a.CountLanes(lanes)
	for i, x := range v {
		if store.first != nil {
			store.first(x, count, at.at(p, i))
		}
	}
	for n := half / 2; n > 0 && store.piece != nil; n /= 2 {
		a.TESTQ(operand.U32(n), count)
		a.JZ(operand.LabelRef(fmt.Sprintf("without%d%s", n, label)))
		for i, x := range v {
			store.piece(x, n, at.at(p, i))
			if n > 1 {
				a.NextPiece(x, n)
			}
		}
		a.ADDQ(operand.U8(n*store.size), p)
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
