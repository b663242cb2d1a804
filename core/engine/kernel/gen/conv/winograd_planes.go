package conv

import (
	"fmt"
	"math/bits"
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

// rowLoads are the ways to load 8 pixels of a row.
type rowLoads struct {
	first func(p operand.Mem, mask, v reg.VecVirtual) // as many as count
	size  int                                         // bytes of a pixel
	// direct says that pixels are float32 and a masked load may take longer than the copy: whole squares are loaded without masks.
	direct bool
}

// fromPlanesByEight is fromPlanes.
func fromPlanesByEight(a *isa.Asm, load rowLoads) {
	rows, src, plane, width, mask, dst, stride, ahead := a.Gp("rows"), a.Gp("src"), a.Gp("plane"), a.Gp("width"), a.Gp("mask"), a.Gp("dst"), a.Gp("stride"), a.Gp("ahead")
	at, p, next := eightRows(a, plane), a.GP64(), a.GP64()
	masks := a.Vecs(2)
	for i, m := range masks {
		a.Move(operand.Mem{Base: mask, Disp: i * vectorBytes(a)}, m)
	}
	a.Label("row")
	eachSquare(a, mask, func(part, group int) {
		partOf(a, src, plane, part, p)
		if group == 0 {
			a.LEAQ(operand.Mem{Base: p, Index: ahead, Scale: 1}, next)
			for i := range half {
				a.PREFETCHT1(at.at(next, i))
			}
		} else {
			a.ADDQ(operand.U8(half*load.size), p)
		}
		to := square{a, dst, group*half*lanesBytes + part*vectorBytes(a)}
		masked := func() {
			v := a.Vecs(half)
			for i := range v {
				load.first(at.at(p, i), masks[group], v[i])
			}
			to.store(a.Transpose(v))
		}
		if !load.direct {
			masked()
			return
		}
		some, stored := fmt.Sprintf("some%d_%d", part, group), fmt.Sprintf("stored%d_%d", part, group)
		whole := func() []reg.VecVirtual {
			return a.LoadTransposed(func(i int) operand.Mem { return at.at(p, i) })
		}
		a.CMPL(operand.Mem{Base: mask, Disp: 4 * (half*group + half - 1)}, operand.U8(0))
		a.JE(operand.LabelRef(some))
		to.store(whole())
		a.JMP(operand.LabelRef(stored))
		a.Label(some)
		if group == 0 {
			masked()
		} else {
			to.storeLast(masks[group], p, next, whole)
		}
		a.Label(stored)
	})
	a.ADDQ(width, src)
	a.ADDQ(stride, dst)
	a.CountDown(rows, "row")
	a.Ret()
}

// square is where the vectors of a square's pixels go to.
type square struct {
	*isa.Asm
	dst  reg.GPVirtual
	disp int
}

func (s square) store(pixels []reg.VecVirtual) {
	for i, v := range pixels {
		s.Move(v, operand.Mem{Base: s.dst, Disp: s.disp + lanesBytes*i})
	}
}

// storeLast stores the last pixels of a row, which begin at p and are fewer than eight but not the first of the row: whole squares
// end with them, and write again what the square before has in common. Zeros follow. mask has the pixels that count.
func (s square) storeLast(mask reg.VecVirtual, p, temp reg.GPVirtual, whole func() []reg.VecVirtual) {
	zero := s.Vec()
	s.Zero(zero)
	for i := range half {
		s.Move(zero, operand.Mem{Base: s.dst, Disp: s.disp + lanesBytes*i})
	}
	lastSquare(s.Asm, s.CountLanes(mask), p, s.dst, temp)
	square{s.Asm, temp, s.disp}.store(whole())
}

// lastSquare leads from a square of which count pixels are in the row to the one that ends with the row: in the plane, where p is,
// and in the vectors of pixels, from which it sets to. count is lost.
func lastSquare(a *isa.Asm, count, p, vectors, to reg.GPVirtual) {
	a.SUBQ(operand.U8(half), count)
	a.LEAQ(operand.Mem{Base: p, Index: count, Scale: 4}, p)
	a.SHLQ(operand.U8(bits.Len(lanesBytes)-1), count)
	a.LEAQ(operand.Mem{Base: vectors, Index: count, Scale: 1}, to)
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
		fromPlanesByEight(a, rowLoads{size: 2, first: func(p operand.Mem, mask, v reg.VecVirtual) {
			f.Load(p, v)
			a.And(mask, v, v)
		}})
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
	whole func(v reg.VecVirtual, m operand.Mem) // nil if rows are float32 as they are
	first func(v reg.VecVirtual, n reg.GPVirtual, m operand.Mem)
	piece func(v reg.VecVirtual, n int, m operand.Mem)
	size  int
}

// toPlanesByEight is toPlanes. load reads a vector of channels of a part.
func toPlanesByEight(a *isa.Asm, load func(m operand.Mem, part int, v reg.VecVirtual), store rowStore) {
	rows, src, stride, dst, plane, width, mask := a.Gp("rows"), a.Gp("src"), a.Gp("stride"), a.Gp("dst"), a.Gp("plane"), a.Gp("width"), a.Gp("mask")
	at, p, next := eightRows(a, plane), a.GP64(), a.GP64()
	a.Label("row")
	eachSquare(a, mask, func(part, group int) {
		pixels := func(src reg.GPVirtual) []reg.VecVirtual {
			v := a.Vecs(half)
			for i := range v {
				load(operand.Mem{Base: src, Disp: (group*half+i)*lanesBytes + part*vectorBytes(a)}, part, v[i])
			}
			return v
		}
		partOf(a, dst, plane, part, p)
		if group == 0 {
			a.MOVQ(plane, next)
			a.SHLQ(operand.U8(4), next)
			a.ADDQ(p, next)
			for i := range half {
				a.PREFETCHT1(at.at(next, i))
			}
		} else {
			a.ADDQ(operand.U8(half*store.size), p)
		}
		label := fmt.Sprintf("%d%d", part, group)
		a.CMPL(operand.Mem{Base: mask, Disp: group*vectorBytes(a) + 4*(half-1)}, operand.U8(0))
		a.JE(operand.LabelRef("some" + label))
		row := func(i int) operand.Mem { return at.at(p, i) }
		if store.whole == nil {
			a.StoreTransposed(pixels(src), row)
		} else {
			for i, x := range a.Transpose(pixels(src)) {
				store.whole(x, row(i))
			}
		}
		a.JMP(operand.LabelRef("stored" + label))
		a.Label("some" + label)
		lanes := a.Vec()
		a.Move(operand.Mem{Base: mask, Disp: group * vectorBytes(a)}, lanes)
		count := a.CountLanes(lanes)
		if store.whole == nil && group == 1 {
			lastSquare(a, count, p, src, next)
			a.StoreTransposed(pixels(next), row)
		} else {
			store.some(a, a.Transpose(pixels(src)), count, label, p, at)
		}
		a.Label("stored" + label)
	})
	a.ADDQ(stride, src)
	a.ADDQ(width, dst)
	a.CountDown(rows, "row")
	a.Ret()
}

// some stores the first count pixels of rows, in pieces of 4, 2 and 1 unless there is another way: some processors take 12
// cycles for a masked store.
func (s rowStore) some(a *isa.Asm, v []reg.VecVirtual, count reg.GPVirtual, label string, p reg.GPVirtual, at strides) {
	for i, x := range v {
		if s.first != nil {
			s.first(x, count, at.at(p, i))
		}
	}
	for n := half / 2; n > 0 && s.piece != nil; n /= 2 {
		without := fmt.Sprintf("without%d%s", n, label)
		a.TESTQ(operand.U32(n), count)
		a.JZ(operand.LabelRef(without))
		for i, x := range v {
			s.piece(x, n, at.at(p, i))
			if n > 1 {
				a.NextPiece(x, n)
			}
		}
		a.ADDQ(operand.U8(n*s.size), p)
		a.Label(without)
	}
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
