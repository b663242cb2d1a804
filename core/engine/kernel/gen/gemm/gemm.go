package gemm

import (
	"fmt"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/trainctl/trainctl/core/engine/kernel/gen/isa"
)

// Offsets of the fields of tile.
const (
	tileK, tileA, tileB0, tileB1, tileOff   = 0, 8, 16, 24, 32
	tileC0, tileC1, tileLdc, tileN0, tileN1 = 40, 48, 56, 64, 72
	tileBias, tileAdd, tileAhead            = 80, 88, 96
	tileCount, tileBNext, tileCNext         = 104, 112, 120
)

// gemm emits the micro-kernels of every height: as many rows as leave room in
// the register file for two columns of B and two broadcasts of A.
func gemm(a *isa.Asm) {
	for mr := 1; mr <= a.TileRows; mr++ {
		gemmTile(a, mr)
	}
}

func gemmTile(a *isa.Asm, mr int) {
	t, acc := tileSums(a, "tile", "", mr)
	tileStore(a, t, mr, acc)
	a.DECQ(operand.Mem{Base: t, Disp: tileCount})
	a.JLE(operand.LabelRef("last"))
	for _, f := range [][3]int{{tileBNext, tileB0, tileB1}, {tileCNext, tileC0, tileC1}} {
		by := a.Field(t, f[0])
		a.ADDQ(by, operand.Mem{Base: t, Disp: f[1]})
		a.ADDQ(by, operand.Mem{Base: t, Disp: f[2]})
	}
	a.JMP(operand.LabelRef("tile"))
	a.Label("last")
	a.Ret()
}

// tileSums begins a function that computes a tile of mr rows, and leaves its sums in acc.
func tileSums(a *isa.Asm, name, suffix string, mr int) (t reg.GPVirtual, acc []reg.VecVirtual) {
	a.Kernel(fmt.Sprintf("%s%d", name, mr), "func(tile *byte)",
		fmt.Sprintf("computes tiles of C of %d rows by two vectors%s.", mr, suffix))
	t, acc = a.Gp("tile"), a.Vecs(2*mr)
	a.Label("tile")
	prefetchAhead(a, t, mr)
	tileInit(a, t, mr, acc)
	tileLoop(a, t, mr, acc)
	return t, acc
}

// prefetchAhead asks for the rows of C that a later tile writes. It goes to the L2 cache, which waits for more
// lines at a time than the L1 cache.
func prefetchAhead(a *isa.Asm, t reg.GPVirtual, mr int) {
	p, ldc := a.Field(t, tileC0), a.Field(t, tileLdc)
	a.ADDQ(operand.Mem{Base: t, Disp: tileAhead}, p)
	for i := range mr {
		for d := 0; d < 8*a.Lanes; d += 64 {
			a.PREFETCHT2(operand.Mem{Base: p, Disp: d})
		}
		if i < mr-1 {
			a.ADDQ(ldc, p)
		}
	}
}

// tileInit starts the sums at the bias of each row, or at zero.
func tileInit(a *isa.Asm, t reg.GPVirtual, mr int, acc []reg.VecVirtual) {
	bias := a.Field(t, tileBias)
	for _, v := range acc {
		a.Zero(v)
	}
	a.TESTQ(bias, bias)
	a.JZ(operand.LabelRef("start"))
	for i := range mr {
		a.Spread(operand.Mem{Base: bias, Disp: 4 * i}, acc[2*i])
		a.Copy(acc[2*i], acc[2*i+1])
	}
	a.Label("start")
}

func tileLoop(a *isa.Asm, t reg.GPVirtual, mr int, acc []reg.VecVirtual) {
	k, pa, b0, b1, table := a.Field(t, tileK), a.Field(t, tileA), a.Field(t, tileB0), a.Field(t, tileB1), a.Field(t, tileOff)
	off := a.GP64()
	v0, v1 := a.Vec(), a.Vec()
	bcast := a.Vecs(2)
	a.TESTQ(k, k)
	a.JZ(operand.LabelRef("store"))
	a.Label("loop")
	a.MOVLQSX(operand.Mem{Base: table}, off)
	a.Move(isa.Offset(b0, off, 0), v0)
	a.Move(isa.Offset(b1, off, 0), v1)
	for i := range mr {
		w := bcast[i%2]
		a.Spread(operand.Mem{Base: pa, Disp: 4 * i}, w)
		a.MulAdd(v0, w, acc[2*i])
		a.MulAdd(v1, w, acc[2*i+1])
	}
	a.ADDQ(operand.U8(4), table)
	a.ADDQ(operand.U8(4*mr), pa)
	a.CountDown(k, "loop")
	a.Label("store")
}

// tileStore writes, or adds, the first n0 and n1 lanes of each row to C.
func tileStore(a *isa.Asm, t reg.GPVirtual, mr int, acc []reg.VecVirtual) {
	c0, c1, ldc := a.Field(t, tileC0), a.Field(t, tileC1), a.Field(t, tileLdc)
	masks := []reg.Register{a.LaneMask(t, tileN0), a.LaneMask(t, tileN1)}
	add := a.Field(t, tileAdd)
	a.StoreWays(masks, true, "stored", func(way string, store func(v reg.VecVirtual, i int, m operand.Mem)) {
		overwrite := "overwrite" + way
		a.TESTQ(add, add)
		a.JZ(operand.LabelRef(overwrite))
		for _, write := range []bool{true, false} {
			for i := range mr {
				for j, c := range []reg.GPVirtual{c0, c1} {
					if write {
						a.AddLanes(operand.Mem{Base: c}, masks[j], acc[2*i+j])
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
