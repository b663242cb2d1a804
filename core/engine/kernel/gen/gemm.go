package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Offsets of the fields of tile.
const (
	tileK, tileA, tileB0, tileB1, tileOff   = 0, 8, 16, 24, 32
	tileC0, tileC1, tileLdc, tileN0, tileN1 = 40, 48, 56, 64, 72
	tileBias, tileAdd                       = 80, 88
	dotCount, dotSteps, dotDY, dotStride    = 0, 8, 16, 24
	dotX, dotOut                            = 32, 80
)

// gemm emits the micro-kernels of every height: as many rows as leave room in
// the register file for two columns of B and two broadcasts of A.
func gemm(a *asm) {
	rows := 6
	if a.lanes == 16 {
		rows = 14
	}
	for mr := 1; mr <= rows; mr++ {
		gemmTile(a, mr)
	}
}

func gemmTile(a *asm, mr int) {
	a.function(fmt.Sprintf("tile%d", mr), "func(tile *byte)",
		fmt.Sprintf("computes a tile of C of %d rows by two vectors.", mr))
	t := a.gp("tile")
	acc := a.vecs(2 * mr)
	tileInit(a, t, mr, acc)
	tileLoop(a, t, mr, acc)
	tileStore(a, t, mr, acc)
	a.ret()
}

// tileInit starts the sums at the bias of each row, or at zero.
func tileInit(a *asm, t reg.GPVirtual, mr int, acc []reg.VecVirtual) {
	bias := a.field(t, tileBias)
	for _, v := range acc {
		a.zero(v)
	}
	a.TESTQ(bias, bias)
	a.JZ(operand.LabelRef("start"))
	for i := range mr {
		a.VBROADCASTSS(operand.Mem{Base: bias, Disp: 4 * i}, acc[2*i])
		a.VMOVAPS(acc[2*i], acc[2*i+1])
	}
	a.Label("start")
}

func tileLoop(a *asm, t reg.GPVirtual, mr int, acc []reg.VecVirtual) {
	k, pa, b0, b1, table := a.field(t, tileK), a.field(t, tileA), a.field(t, tileB0), a.field(t, tileB1), a.field(t, tileOff)
	off := a.GP64()
	v0, v1 := a.vec(), a.vec()
	bcast := a.vecs(2)
	a.TESTQ(k, k)
	a.JZ(operand.LabelRef("store"))
	a.Label("loop")
	a.MOVLQSX(operand.Mem{Base: table}, off)
	a.VMOVUPS(at(b0, off, 0), v0)
	a.VMOVUPS(at(b1, off, 0), v1)
	for i := range mr {
		w := bcast[i%2]
		a.VBROADCASTSS(operand.Mem{Base: pa, Disp: 4 * i}, w)
		a.mulAdd(v0, w, acc[2*i])
		a.mulAdd(v1, w, acc[2*i+1])
	}
	a.ADDQ(operand.U8(4), table)
	a.ADDQ(operand.U8(4*mr), pa)
	a.DECQ(k)
	a.JNZ(operand.LabelRef("loop"))
	a.Label("store")
}

// tileStore writes, or adds, the first n0 and n1 lanes of each row to C.
func tileStore(a *asm, t reg.GPVirtual, mr int, acc []reg.VecVirtual) {
	c0, c1, ldc := a.field(t, tileC0), a.field(t, tileC1), a.field(t, tileLdc)
	store0, add0 := a.lanesStore(t, tileN0)
	store1, add1 := a.lanesStore(t, tileN1)
	add := a.field(t, tileAdd)
	a.TESTQ(add, add)
	a.JZ(operand.LabelRef("overwrite"))
	for _, write := range []bool{true, false} {
		for i := range mr {
			p0, p1 := operand.Mem{Base: c0}, operand.Mem{Base: c1}
			if write {
				add0(p0, acc[2*i])
				add1(p1, acc[2*i+1])
			}
			store0(acc[2*i], p0)
			store1(acc[2*i+1], p1)
			if i < mr-1 {
				a.ADDQ(ldc, c0)
				a.ADDQ(ldc, c1)
			}
		}
		if write {
			a.ret()
			a.Label("overwrite")
		}
	}
}

// lanesStore returns emitters that store, and that add memory to, the first lanes
// of a vector; how many is the field of t at offset.
func (a *asm) lanesStore(t reg.GPVirtual, offset int) (store func(reg.VecVirtual, operand.Mem), add func(operand.Mem, reg.VecVirtual)) {
	mask := a.laneMask(t, offset)
	if a.lanes == 16 {
		return func(v reg.VecVirtual, m operand.Mem) { a.VMOVUPS(v, mask, m) },
			func(m operand.Mem, v reg.VecVirtual) { a.VADDPS(m, v, mask, v) }
	}
	return func(v reg.VecVirtual, m operand.Mem) { a.VMASKMOVPS(v, mask, m) },
		func(m operand.Mem, v reg.VecVirtual) {
			old := a.vec()
			a.VMASKMOVPS(m, mask, old)
			a.VADDPS(old, v, v)
		}
}

// laneMask loads the mask of the first lanes: a mask register, or sign bits from
// the table that pair points into.
func (a *asm) laneMask(t reg.GPVirtual, offset int) reg.Register {
	n := a.field(t, offset)
	if a.lanes == 16 {
		k := a.K()
		a.KMOVW(n.As32(), k)
		return k
	}
	v := a.vec()
	a.VMOVUPS(operand.Mem{Base: n}, v)
	return v
}
