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
	tileANext, tileBiasNext                 = 128, 136
)

// gemm emits the micro-kernels of float32.
func gemm(a *isa.Asm) {
	gemmTiles(a)
	for mr := 1; mr <= len(together); mr++ {
		gemmTogether(a, mr)
	}
}

// gemmTiles emits the micro-kernels of every height: as many rows as leave room in
// the register file for two columns of B and two broadcasts of A.
func gemmTiles(a *isa.Asm) {
	for mr := 1; mr <= a.TileRows; mr++ {
		gemmTile(a, mr)
	}
}

// together is how many tiles of one and of two rows are computed at a time: a sum waits four cycles for the one before
// it, in which a core issues eight others.
var together = [2]int{4, 2}

func gemmTile(a *isa.Asm, mr int) {
	t, acc := tileSums(a, "tile", "", mr)
	tileStore(a, t, mr, acc)
	a.DECQ(operand.Mem{Base: t, Disp: tileCount})
	a.JLE(operand.LabelRef("last"))
	for _, f := range [][]int{{tileANext, tileA}, {tileBNext, tileB0, tileB1}, {tileCNext, tileC0, tileC1}, {tileBiasNext, tileBias}} {
		by := a.Field(t, f[0])
		for _, field := range f[1:] {
			a.ADDQ(by, operand.Mem{Base: t, Disp: field})
		}
	}
	a.JMP(operand.LabelRef("tile"))
	a.Label("last")
	a.Ret()
}

// gemmTogether emits the micro-kernel that computes several tiles of few rows at a time, while so many are left.
func gemmTogether(a *isa.Asm, mr int) {
	tiles := together[mr-1]
	a.Kernel(fmt.Sprintf("tiles%d", mr), "func(tile *byte)",
		fmt.Sprintf("computes %d tiles of C of %d rows by two vectors at a time, while there are as many.", tiles, mr))
	t, acc := a.Gp("tile"), a.Vecs(2*mr*tiles)
	a.Label("tile")
	bias := a.Field(t, tileBias)
	for _, v := range acc {
		a.Zero(v)
	}
	a.TESTQ(bias, bias)
	a.JZ(operand.LabelRef("start"))
	for i := range mr {
		a.Spread(operand.Mem{Base: bias, Disp: 4 * i}, acc[2*i])
		a.Copy(acc[2*i], acc[2*i+1])
		for j := 2 * (i + mr); j < len(acc); j += 2 * mr {
			a.Copy(acc[2*i], acc[j])
			a.Copy(acc[2*i], acc[j+1])
		}
	}
	a.Label("start")
	togetherLoop(a, t, mr, acc)
	togetherStore(a, t, mr, acc)
	a.SUBQ(operand.U8(tiles), operand.Mem{Base: t, Disp: tileCount})
	a.CMPQ(operand.Mem{Base: t, Disp: tileCount}, operand.U8(tiles))
	a.JGE(operand.LabelRef("tile"))
	a.CMPQ(operand.Mem{Base: t, Disp: tileCount}, operand.U8(0))
	a.JNE(operand.LabelRef("left"))
	togetherBack(a, t)
	a.Label("left")
	a.Ret()
}

// togetherBack moves the pointers from behind the last tile back to it: the garbage collector sees them once the kernel has
// returned, and what lies behind a matrix may be memory that it has taken back.
func togetherBack(a *isa.Asm, t reg.GPVirtual) {
	for _, f := range [][3]int{{tileBNext, tileB0, tileB1}, {tileCNext, tileC0, tileC1}} {
		by := a.Field(t, f[0])
		for _, field := range f[1:] {
			at := a.Field(t, field)
			a.SUBQ(by, at)
			a.MOVQ(at, operand.Mem{Base: t, Disp: field})
		}
	}
}

// togetherLoop adds up the products of all tiles, and moves B0 and B1 to the next ones.
func togetherLoop(a *isa.Asm, t reg.GPVirtual, mr int, acc []reg.VecVirtual) {
	k, pa, table, by := a.Field(t, tileK), a.Field(t, tileA), a.Field(t, tileOff), a.Field(t, tileBNext)
	var b []reg.GPVirtual
	for range len(acc) / (2 * mr) {
		b = append(b, a.Field(t, tileB0), a.Field(t, tileB1))
		a.ADDQ(by, operand.Mem{Base: t, Disp: tileB0})
		a.ADDQ(by, operand.Mem{Base: t, Disp: tileB1})
	}
	off, w := a.GP64(), a.Vecs(mr)
	v0, v1 := a.Vec(), a.Vec()
	a.TESTQ(k, k)
	a.JZ(operand.LabelRef("sums"))
	a.Label("loop")
	a.MOVLQSX(operand.Mem{Base: table}, off)
	for i := range mr {
		a.Spread(operand.Mem{Base: pa, Disp: 4 * i}, w[i])
	}
	for j := 0; j < len(b); j += 2 {
		a.Move(isa.Offset(b[j], off, 0), v0)
		a.Move(isa.Offset(b[j+1], off, 0), v1)
		for i := range mr {
			a.MulAdd(v0, w[i], acc[j*mr+2*i])
			a.MulAdd(v1, w[i], acc[j*mr+2*i+1])
		}
	}
	a.ADDQ(operand.U8(4), table)
	a.ADDQ(operand.U8(4*mr), pa)
	a.CountDown(k, "loop")
	a.Label("sums")
}

// togetherStore writes the sums of one tile after the other, always from the same registers, and moves C0 and C1 to the next ones.
func togetherStore(a *isa.Asm, t reg.GPVirtual, mr int, acc []reg.VecVirtual) {
	left := a.GP64()
	a.MOVQ(operand.U32(len(acc)/(2*mr)), left)
	a.Label("sum")
	tileStore(a, t, mr, acc[:2*mr])
	by := a.Field(t, tileCNext)
	a.ADDQ(by, operand.Mem{Base: t, Disp: tileC0})
	a.ADDQ(by, operand.Mem{Base: t, Disp: tileC1})
	for i := range len(acc) - 2*mr {
		a.Copy(acc[i+2*mr], acc[i])
	}
	a.CountDown(left, "sum")
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

// prefetchAhead asks for the rows of C that a later tile writes, unless their distance is negative. It goes to the L2 cache, which waits
// for more lines at a time than the L1 cache.
func prefetchAhead(a *isa.Asm, t reg.GPVirtual, mr int) {
	p, ldc := a.Field(t, tileAhead), a.Field(t, tileLdc)
	a.CMPQ(p, operand.U8(0))
	a.JLT(operand.LabelRef("near"))
	a.ADDQ(operand.Mem{Base: t, Disp: tileC0}, p)
	for i := range mr {
		for d := 0; d < 8*a.Lanes; d += 64 {
			a.PREFETCHT2(operand.Mem{Base: p, Disp: d})
		}
		if i < mr-1 {
			a.ADDQ(ldc, p)
		}
	}
	a.Label("near")
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
						addLanes(a, way == isa.AllLanes, operand.Mem{Base: c}, masks[j], acc[2*i+j])
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
