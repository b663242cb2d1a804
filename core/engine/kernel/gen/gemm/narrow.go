package gemm

import (
	"bytes"
	"fmt"
	"math/bits"
	"slices"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/trainctl/trainctl/core/engine/kernel/gen/isa"
)

// narrow emits the kernels of products with few columns: lanes are rows of A, which are transposed on the way.
func narrow(a *isa.Asm) {
	for columns := 1; columns <= mostNarrow(a.ISA); columns++ {
		narrowTiles(a, columns)
	}
}

// mostNarrow is how many columns count as few: more fill most of a vector.
func mostNarrow(v isa.ISA) int { return v.Lanes / 2 }

// narrowTiles computes two tiles of a vector of rows at a time where the sums of one would wait for each other.
func narrowTiles(a *isa.Asm, columns int) {
	a.Kernel(fmt.Sprintf("narrow%d", columns), "func(strip *byte)",
		fmt.Sprintf("computes tiles of rows by %d columns; A's rows lie apart, and the values of B for one k side by side.", columns))
	t, vectors := a.Gp("strip"), 2
	if columns > mostPaired {
		vectors = 1
	}
	acc := a.Vecs(columns * vectors)
	c, tiles, lda, first := a.Field(t, stripC), a.Field(t, stripTiles), a.Field(t, stripAStep), a.Field(t, stripA)
	a.Label("tile")
	prefetchNarrow(a, t, first, c, vectors)
	bias := a.Field(t, stripBias)
	for j, v := range acc[:columns] {
		a.Spread(operand.Mem{Base: bias, Disp: 4 * j}, v)
	}
	for j, v := range acc[columns:] {
		a.Copy(acc[j], v)
	}
	k, pb, pa, row := a.Field(t, stripK), a.Field(t, stripB), a.GP64(), a.GP64()
	a.MOVQ(first, pa)
	size := narrowBlock(a)
	block := func(load rowLoad, rest bool) {
		a.MOVQ(pa, row)
		for h := range vectors {
			end := fmt.Sprintf("added%d", h)
			for i, x := range rowsToLanes(a, row, lda, load) {
				if rest && i > 0 {
					a.CMPQ(k, operand.U8(i))
					a.JE(operand.LabelRef(end))
				}
				for j := range columns {
					addProduct(a, operand.Mem{Base: pb, Disp: 4 * (columns*i + j)}, x, acc[columns*h+j])
				}
			}
			if rest {
				a.Label(end)
			}
		}
	}
	a.SUBQ(operand.U8(size), k)
	a.JL(operand.LabelRef("rest"))
	a.Label("block")
	block(loadRow(a), false)
	a.ADDQ(operand.I32(4*columns*size), pb)
	a.ADDQ(operand.U8(4*size), pa)
	a.SUBQ(operand.U8(size), k)
	a.JGE(operand.LabelRef("block"))
	a.Label("rest")
	a.ADDQ(operand.U8(size), k)
	a.JZ(operand.LabelRef("finish"))
	block(loadRowTail(a, t), true)
	a.Label("finish")
	finishNarrow(a, t, c, columns, acc)
	a.ADDQ(operand.Mem{Base: t, Disp: stripANext}, first)
	a.CountDown(tiles, "tile")
	a.Ret()
}

// prefetchNarrow asks for what later tiles read and write, if it is told how far ahead they lie.
func prefetchNarrow(a *isa.Asm, t, first, c reg.GPVirtual, vectors int) {
	aheadA, aheadC, rows := a.Field(t, stripAheadA), a.Field(t, stripAheadC), a.Field(t, stripLdc)
	a.TESTQ(aheadA, aheadA)
	a.JZ(operand.LabelRef("start"))
	prefetchLines(a, first, aheadA, a.Field(t, stripANext), "linesA")
	a.SHLQ(operand.U8(bits.Len(uint(vectors*a.Lanes))-1), rows)
	prefetchLines(a, c, aheadC, rows, "linesC")
	a.Label("start")
}

// mostPaired is the most columns whose sums wait for each other in one tile: a core adds two vectors in a cycle, and each
// sum takes four.
const mostPaired = 4

// narrowBlock is how many elements of each row are transposed at a time.
func narrowBlock(a *isa.Asm) int {
	if a.Lanes == 16 {
		return 16
	}
	return 4
}

// rowLoad loads a part of a row: all lanes of v or, with eight lanes, the lower or the upper half.
type rowLoad func(m operand.Mem, v reg.VecVirtual, upper bool)

func loadRow(a *isa.Asm) rowLoad {
	return func(m operand.Mem, v reg.VecVirtual, upper bool) {
		switch {
		case a.Lanes == 16:
			a.Move(m, v)
		case upper:
			a.VINSERTF128(operand.U8(1), m, v, v)
		default:
			a.Move(m, v.AsX())
		}
	}
}

// loadRowTail loads the last elements of a row.
func loadRowTail(a *isa.Asm, t reg.GPVirtual) rowLoad {
	if a.Lanes == 16 {
		mask := a.LaneMask(t, stripTail)
		return func(m operand.Mem, v reg.VecVirtual, _ bool) { a.LoadLanes(m, mask, v) }
	}
	mask := a.XMM()
	a.Move(operand.Mem{Base: a.Field(t, stripTail)}, mask)
	return func(m operand.Mem, v reg.VecVirtual, upper bool) {
		if !upper {
			a.VMASKMOVPS(m, mask, v.AsX())
			return
		}
		x := a.XMM()
		a.VMASKMOVPS(m, mask, x)
		a.VINSERTF128(operand.U8(1), x, v, v)
	}
}

// rowsToLanes transposes a block of as many rows as a vector has lanes, and leaves row behind them.
func rowsToLanes(a *isa.Asm, row, lda reg.GPVirtual, load rowLoad) []reg.VecVirtual {
	v := a.Vecs(narrowBlock(a))
	for i := range a.Lanes {
		upper := i >= len(v)
		if len(v) < a.Lanes && !upper {
			a.Zero(v[i]) // or its upper half would occupy a register from the beginning on
		}
		load(operand.Mem{Base: row}, v[i%len(v)], upper)
		a.ADDQ(lda, row)
	}
	if a.Lanes == 16 {
		return a.Transpose16(v)
	}
	return a.TransposeFours(v)
}

// finishNarrow writes the tiles, and moves c behind them.
func finishNarrow(a *isa.Asm, t, c reg.GPVirtual, columns int, acc []reg.VecVirtual) {
	add := a.Field(t, stripAdd)
	each := func(write func(x reg.Register, n int, m operand.Mem)) {
		for h := 0; h < len(acc); h += columns {
			eachPart(a, t, c, slices.Clone(acc[h:][:columns]), write)
		}
	}
	a.TESTQ(add, add)
	a.JNZ(operand.LabelRef("add"))
	floor := a.Vec()
	a.Spread(operand.Mem{Base: t, Disp: stripFloor}, floor)
	for _, v := range acc {
		a.VMAXPS(v, floor, v)
	}
	each(a.StoreFirst) // a load would wait for the stores of the rows before
	a.JMP(operand.LabelRef("next"))
	a.Label("add")
	load := loadSome(a, t, columns)
	each(func(x reg.Register, n int, m operand.Mem) {
		old, least := a.XMM(), a.XMM()
		load(n, m, old)
		a.VADDPS(x, old, old)
		a.Spread(operand.Mem{Base: t, Disp: stripFloor}, least)
		a.VMAXPS(old, least, old)
		a.StoreFirst(old, n, m)
	})
	a.Label("next")
}

// eachPart calls f for up to four columns of each row of a tile, and moves c behind it.
func eachPart(a *isa.Asm, t, c reg.GPVirtual, acc []reg.VecVirtual, f func(x reg.Register, n int, m operand.Mem)) {
	ldc := a.Field(t, stripLdc)
	var fours [][]reg.VecVirtual
	for v := range slices.Chunk(acc, 4) {
		v = slices.Clone(v)
		for len(v) < 4 { // a column that is not there
			v = append(v, a.Vec())
			a.Copy(v[0], v[len(v)-1])
		}
		fours = append(fours, a.TransposeFours(v))
	}
	for row := range a.Lanes {
		for j, v := range fours {
			f(a.Part(v[row%4], row/4), min(4, len(acc)-4*j), operand.Mem{Base: c, Disp: 16 * j})
		}
		a.ADDQ(ldc, c)
	}
}

// loadSome loads four lanes, or the first of the last ones of so many columns.
func loadSome(a *isa.Asm, t reg.GPVirtual, columns int) func(n int, m operand.Mem, x reg.VecVirtual) {
	var mask reg.Register
	if rest := columns % 4; rest > 0 && a.Lanes == 16 {
		first := a.GP32()
		a.MOVL(operand.U32(1<<rest-1), first)
		mask = a.K()
		a.KMOVW(first, mask)
	} else if rest > 0 {
		mask = a.XMM()
		a.Move(operand.Mem{Base: a.Field(t, stripN1)}, mask)
	}
	return func(n int, m operand.Mem, x reg.VecVirtual) {
		if n == 4 {
			a.Move(m, x)
		} else {
			a.LoadLanes(m, mask, x)
		}
	}
}

// addProduct adds to acc the products of x and one value in memory.
func addProduct(a *isa.Asm, m operand.Mem, x, acc reg.VecVirtual) {
	if a.Lanes == 16 {
		a.VFMADD231PS_BCST(m, x, acc)
		return
	}
	w := a.Vec()
	a.Spread(m, w)
	a.Fma(w, x, acc)
}

// narrowChoice writes the Go functions that choose among them.
func narrowChoice(b *bytes.Buffer, isas []isa.ISA) {
	const name = "runNarrow"
	fmt.Fprintf(b, "\n// %s runs the kernel of that many columns and vectors of so many lanes.\n", name)
	byLanes(b, name, "columns", isas)
	for _, v := range isas {
		fmt.Fprintf(b, "\nfunc %s%s(columns int, t *strip) {\n\tswitch columns {\n", name, v.Name)
		for columns := 1; columns <= mostNarrow(v); columns++ {
			fmt.Fprintf(b, "\tcase %d:\n\t\tnarrow%d%s(t)\n", columns, columns, v.Name)
		}
		b.WriteString("\t}\n}\n")
	}
}
