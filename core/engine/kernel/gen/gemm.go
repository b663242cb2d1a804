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
	for mr := 1; mr <= a.tileRows; mr++ {
		gemmTile(a, mr)
	}
}

func gemmTile(a *asm, mr int) {
	t, acc := tileSums(a, "tile", "", mr)
	tileStore(a, t, mr, acc)
	a.ret()
}

// tileSums begins a function that computes a tile of mr rows, and leaves its sums in acc.
func tileSums(a *asm, name, suffix string, mr int) (t reg.GPVirtual, acc []reg.VecVirtual) {
	a.function(fmt.Sprintf("%s%d", name, mr), "func(tile *byte)",
		fmt.Sprintf("computes a tile of C of %d rows by two vectors%s.", mr, suffix))
	t, acc = a.gp("tile"), a.vecs(2*mr)
	tileInit(a, t, mr, acc)
	tileLoop(a, t, mr, acc)
	return t, acc
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
		a.spread(operand.Mem{Base: bias, Disp: 4 * i}, acc[2*i])
		a.copy(acc[2*i], acc[2*i+1])
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
	a.move(at(b0, off, 0), v0)
	a.move(at(b1, off, 0), v1)
	for i := range mr {
		w := bcast[i%2]
		a.spread(operand.Mem{Base: pa, Disp: 4 * i}, w)
		a.mulAdd(v0, w, acc[2*i])
		a.mulAdd(v1, w, acc[2*i+1])
	}
	a.ADDQ(operand.U8(4), table)
	a.ADDQ(operand.U8(4*mr), pa)
	a.countDown(k, "loop")
	a.Label("store")
}

// tileStore writes, or adds, the first n0 and n1 lanes of each row to C.
func tileStore(a *asm, t reg.GPVirtual, mr int, acc []reg.VecVirtual) {
	c0, c1, ldc := a.field(t, tileC0), a.field(t, tileC1), a.field(t, tileLdc)
	masks := []reg.Register{a.laneMask(t, tileN0), a.laneMask(t, tileN1)}
	add := a.field(t, tileAdd)
	a.storeWays(masks, true, "stored", func(way string, store func(v reg.VecVirtual, i int, m operand.Mem)) {
		overwrite := "overwrite" + way
		a.TESTQ(add, add)
		a.JZ(operand.LabelRef(overwrite))
		for _, write := range []bool{true, false} {
			for i := range mr {
				for j, c := range []reg.GPVirtual{c0, c1} {
					if write {
						a.addLanes(operand.Mem{Base: c}, masks[j], acc[2*i+j])
					}
					store(acc[2*i+j], j, operand.Mem{Base: c})
				}
				if i < mr-1 {
					a.ADDQ(ldc, c0)
					a.ADDQ(ldc, c1)
				}
			}
			if write {
				a.JMP(operand.LabelRef("stored"))
				a.Label(overwrite)
			}
		}
	})
}
